// Records changed so that code that knows only unsigned keys in ascending order can sort them.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sort/key.h"
#include "sort/small_sort.h"

namespace vortex {

// Changes records on their way in and back on their way out. This one changes nothing.
template <typename Record>
struct NoCodec {
  void encode(Record*, std::size_t) const noexcept {}
  void decode(Record*, std::size_t) const noexcept {}
};

namespace detail {

// What tells a kind of key from unsigned numbers in ascending order.
struct KeyCode {
  bool is_signed = false;
  bool is_float = false;
  bool descending = false;
};

template <RadixKey K>
constexpr KeyCode key_code(Order order) noexcept {
  return {std::signed_integral<K>, std::floating_point<K>, order == Order::kDescending};
}

// to_key_bits() with the kind of key known at run time: keys are decoded by the same two steps in
// reverse order. `rotate` brings the key of a pair of halves to the top and back.
template <typename Bits>
class WordCodec {
 public:
  explicit WordCodec(KeyCode code, int key_bits = std::numeric_limits<Bits>::digits)
      // A key that comes first in memory is the lower part of a word, or the upper one already.
      : rotate_(std::endian::native == std::endian::little
                    ? std::numeric_limits<Bits>::digits - key_bits
                    : 0) {
    const Bits key = static_cast<Bits>(~Bits{0}) << (std::numeric_limits<Bits>::digits - key_bits);
    const Bits sign = kSignBit<Bits>;
    if (code.is_float) when_negative_ = key & ~sign;
    if (code.is_float || code.is_signed) always_ = sign;
    if (code.descending) always_ ^= key;
    identity_ = rotate_ == 0 && always_ == 0 && when_negative_ == 0;
  }

  Bits encode(Bits word) const noexcept {
    word = std::rotl(word, rotate_);
    return word ^ (negative(word) & when_negative_) ^ always_;
  }
  Bits decode(Bits word) const noexcept {
    word ^= always_;
    word ^= negative(word) & when_negative_;
    return std::rotr(word, rotate_);
  }
  void encode(Bits* words, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) words[i] = encode(words[i]);
  }
  void decode(Bits* words, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) words[i] = decode(words[i]);
  }

 private:
  // All bits set for a negative number.
  static Bits negative(Bits word) noexcept {
    return static_cast<Bits>(-static_cast<Bits>(word >> (std::numeric_limits<Bits>::digits - 1)));
  }

  int rotate_;
  Bits when_negative_ = 0;
  Bits always_ = 0;
  bool identity_;
};

class PairCodec {
 public:
  explicit PairCodec(KeyCode code)
      : key_(code), identity_(!code.is_signed && !code.is_float && !code.descending) {}
  void encode(Pair64* pairs, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) pairs[i].key = key_.encode(pairs[i].key);
  }
  void decode(Pair64* pairs, std::size_t count) const noexcept {
    if (identity_) return;
    for (std::size_t i = 0; i < count; ++i) pairs[i].key = key_.decode(pairs[i].key);
  }

 private:
  WordCodec<std::uint64_t> key_;
  bool identity_;
};

struct KeyOfWord {
  template <typename Bits>
  Bits operator()(Bits word) const noexcept {
    return word;
  }
};
struct KeyOfPair {
  std::uint64_t operator()(const Pair64& pair) const noexcept { return pair.key; }
};

}  // namespace detail
}  // namespace vortex
