// The one encoder of numbers: to unsigned bits whose order is the order of the numbers, and back.
#pragma once

#include <cstdint>
#include <limits>

namespace vortex { inline namespace v0 {

enum class KeyKind : std::uint8_t {
  kBytes,     // compared as memcmp does
  kUnsigned,  // integers of 1, 2, 4 or 8 bytes
  kSigned,
  kFloat,  // IEEE 754, 4 or 8 bytes
};

// The kind and the order of a key. They decide how KeyEncoder makes it an unsigned number in
// ascending order.
struct KeyCode {
  KeyKind kind = KeyKind::kUnsigned;
  bool descending = false;

  friend bool operator==(const KeyCode&, const KeyCode&) = default;
};

// Encodes a number that is the upper `key_bits` bits of an unsigned word; the bits below stay as
// they are. encode(a) < encode(b) exactly if a belongs before b. Floating-point numbers are in the
// total order of their bits: negative NaNs, -inf ... -0.0, +0.0 ... +inf, NaNs. Bytes, loaded with
// the first as the highest, count as an unsigned number. Branch-free; a constant encoder costs what
// a function written for its type does.
template <typename Bits>
class KeyEncoder {
 public:
  static constexpr int kDigits = std::numeric_limits<Bits>::digits;

  constexpr KeyEncoder() = default;
  constexpr explicit KeyEncoder(KeyCode code, int key_bits = kDigits) noexcept {
    const Bits key = static_cast<Bits>(static_cast<Bits>(~Bits{0}) << (kDigits - key_bits));
    const Bits sign = Bits{1} << (kDigits - 1);
    // Negative floating-point numbers grow with smaller bits: all of theirs are flipped.
    if (code.kind == KeyKind::kFloat) when_negative_ = key & static_cast<Bits>(~sign);
    if (code.kind == KeyKind::kFloat || code.kind == KeyKind::kSigned) always_ = sign;
    if (code.descending) always_ ^= key;
  }

  constexpr Bits encode(Bits word) const noexcept {
    return word ^ (negative(word) & when_negative_) ^ always_;
  }
  constexpr Bits decode(Bits word) const noexcept {
    word ^= always_;
    return word ^ (negative(word) & when_negative_);
  }

  // Whether words stay as they are.
  constexpr bool is_identity() const noexcept { return always_ == 0 && when_negative_ == 0; }

 private:
  // All bits set for a negative number.
  static constexpr Bits negative(Bits word) noexcept {
    return static_cast<Bits>(-static_cast<Bits>(word >> (kDigits - 1)));
  }

  Bits when_negative_ = 0;
  Bits always_ = 0;
};

}}  // namespace vortex::v0
