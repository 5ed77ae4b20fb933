// Keys as unsigned bits whose order is the order of the keys.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace vortex {

enum class Order { kAscending, kDescending };

// What radix sorting takes as a key: integers up to 64 bits, float and double. Floating-point keys
// are in the total order of their bits: negative NaNs, -inf ... -0.0, +0.0 ... +inf, NaNs.
template <typename K>
concept RadixKey =
    (std::integral<K> && sizeof(K) <= 8) || std::same_as<std::remove_cv_t<K>, float> ||
    std::same_as<std::remove_cv_t<K>, double>;

// The unsigned type of a key's bits: 32 bits for keys of up to 32.
template <RadixKey K>
using KeyBits = std::conditional_t<sizeof(K) <= 4, std::uint32_t, std::uint64_t>;

namespace detail {
template <typename Bits>
inline constexpr Bits kSignBit = Bits{1} << (std::numeric_limits<Bits>::digits - 1);
}

// to_key_bits(a) < to_key_bits(b) exactly if a < b (for kDescending: a > b). Branch-free.
template <Order order = Order::kAscending, RadixKey K>
constexpr KeyBits<K> to_key_bits(K key) noexcept {
  using Bits = KeyBits<K>;
  Bits bits{};
  if constexpr (std::floating_point<K>) {
    bits = std::bit_cast<Bits>(key);
    // Negative numbers: all bits flipped; others: the sign bit set.
    bits ^= static_cast<Bits>(-static_cast<Bits>(bits / detail::kSignBit<Bits>)) |
            detail::kSignBit<Bits>;
  } else if constexpr (std::signed_integral<K>) {
    using Wide = std::make_signed_t<Bits>;
    bits = static_cast<Bits>(static_cast<Wide>(key)) ^ detail::kSignBit<Bits>;
  } else {
    bits = static_cast<Bits>(key);
  }
  return order == Order::kAscending ? bits : static_cast<Bits>(~bits);
}

// The inverse.
template <RadixKey K, Order order = Order::kAscending>
constexpr K from_key_bits(KeyBits<K> bits) noexcept {
  using Bits = KeyBits<K>;
  if constexpr (order == Order::kDescending) bits = static_cast<Bits>(~bits);
  if constexpr (std::floating_point<K>) {
    bits ^= static_cast<Bits>(static_cast<Bits>(bits / detail::kSignBit<Bits>) - 1) |
            detail::kSignBit<Bits>;
    return std::bit_cast<K>(bits);
  } else if constexpr (std::signed_integral<K>) {
    return static_cast<K>(bits ^ detail::kSignBit<Bits>);
  } else {
    return static_cast<K>(bits);
  }
}

// A key with something attached to it.
template <RadixKey Key, typename Value>
struct KeyValue {
  Key key;
  Value value;
};

}  // namespace vortex
