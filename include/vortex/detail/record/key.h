// Keys as unsigned bits whose order is the order of the keys, and the one encoder that makes them
// of numbers, and back.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

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
// they are. encode(a) < encode(b) exactly if a belongs before b. Bytes, loaded with the first as
// the highest, count as an unsigned number. Branch-free; a constant encoder costs what a function
// written for its type does.
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

enum class Order { kAscending, kDescending };

namespace detail {

// What an enumeration counts with, and the type itself of what is none.
template <typename K>
struct NumberOf {
  using Type = K;
};
template <typename K>
requires std::is_enum_v<K>
struct NumberOf<K> {
  using Type = std::underlying_type_t<K>;
};

}  // namespace detail

// The types that radix sorting takes as keys: integers up to 64 bits, bool and characters,
// enumerations, float and double.
// Floating-point keys are in the total order of their bits: negative NaNs, -inf ... -0.0, +0.0 ...
// +inf, NaNs.
template <typename K>
concept RadixKey =
    ((std::integral<K> || std::is_enum_v<K>)&&sizeof(K) <= 8) ||
    std::same_as<std::remove_cv_t<K>, float> || std::same_as<std::remove_cv_t<K>, double>;

// The unsigned type of a key's bits: 32 bits for keys of up to 32.
template <RadixKey K>
using KeyBits = std::conditional_t<sizeof(K) <= 4, std::uint32_t, std::uint64_t>;

template <RadixKey K>
constexpr KeyCode key_code(Order order) noexcept {
  using Number = typename detail::NumberOf<K>::Type;
  return {std::floating_point<K>         ? KeyKind::kFloat
          : std::signed_integral<Number> ? KeyKind::kSigned
                                         : KeyKind::kUnsigned,
          order == Order::kDescending};
}

// to_key_bits(a) < to_key_bits(b) exactly if a < b (for kDescending: a > b). Branch-free.
template <Order order = Order::kAscending, RadixKey K>
constexpr KeyBits<K> to_key_bits(K key) noexcept {
  using Bits = KeyBits<K>;
  constexpr KeyEncoder<Bits> kEncoder(key_code<K>(order));
  if constexpr (std::floating_point<K>) {
    return kEncoder.encode(std::bit_cast<Bits>(key));
  } else if constexpr (std::signed_integral<typename detail::NumberOf<K>::Type>) {
    return kEncoder.encode(static_cast<Bits>(static_cast<std::make_signed_t<Bits>>(key)));
  } else {
    return kEncoder.encode(static_cast<Bits>(key));
  }
}

namespace detail {

// The member that a key of a record of type T is, if it is one.
template <typename T, typename KeyFunction>
struct MemberKey {
  static constexpr bool kIsOne = false;
};
template <typename T, typename Class, typename Member>
requires(!std::is_function_v<Member> && std::is_base_of_v<Class, T> &&
         RadixKey<Member>) struct MemberKey<T, Member Class::*> {
  static constexpr bool kIsOne = true;
  using Key = std::remove_cv_t<Member>;
  // Where it begins in the record: what such a pointer holds on every platform of this library.
  static std::ptrdiff_t offset(Member Class::*member) noexcept {
    return std::bit_cast<std::ptrdiff_t>(static_cast<Member T::*>(member));
  }
};

// `key(record)`. A member is copied from where it lies, since a packed one has no reference.
template <typename T, typename KeyFunction>
auto take_key(const KeyFunction& key, const T& record) noexcept {
  using Member = MemberKey<T, KeyFunction>;
  if constexpr (Member::kIsOne) {
    typename Member::Key copy;
    std::memcpy(&copy, reinterpret_cast<const std::byte*>(&record) + Member::offset(key),
                sizeof copy);
    return copy;
  } else {
    return std::invoke(key, record);
  }
}

// The bits of `key(record)`, in either order. The order is a value, not a type: a sort is compiled
// once for both, and flipping the bits is one instruction.
template <typename T, typename KeyFunction>
class OrderedKey {
 public:
  using Bits = KeyBits<std::remove_cvref_t<std::invoke_result_t<const KeyFunction&, const T&>>>;

  OrderedKey(KeyFunction key, Order order)
      : key_(std::move(key)), flip_(order == Order::kDescending ? ~Bits{0} : Bits{0}) {}

  Bits operator()(const T& record) const noexcept {
    return to_key_bits(take_key(key_, record)) ^ flip_;
  }

 private:
  [[no_unique_address]] KeyFunction key_;
  Bits flip_;
};

}  // namespace detail

// A key with something attached to it.
template <RadixKey Key, typename Value>
struct KeyValue {
  Key key;
  Value value;
};

// A 64-bit key and what it belongs to: 16 bytes, as the kernels sort them.
using Pair64 = KeyValue<std::uint64_t, std::uint64_t>;

}}  // namespace vortex::v0
