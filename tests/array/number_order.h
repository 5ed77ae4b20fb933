// The order of numbers, for what is told of their keys.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "vortex/detail/record/key.h"

namespace vortex::test {

// std::strong_order is IEEE 754's totalOrder.
template <typename T>
bool belongs_before(T left, T right) {
  if constexpr (std::floating_point<T>) {
    return std::strong_order(left, right) < 0;
  } else {
    return left < right;
  }
}

// The same in either order, of the numbers that `key` takes from records.
template <typename Key>
auto before_by(Key key, Order order) {
  return [=](const auto& left, const auto& right) {
    return order == Order::kAscending ? belongs_before(key(left), key(right))
                                      : belongs_before(key(right), key(left));
  };
}
inline auto before_in(Order order) {
  return before_by([](auto number) { return number; }, order);
}

template <typename T>
std::vector<T> sorted(std::vector<T> numbers, Order order = Order::kAscending) {
  std::sort(numbers.begin(), numbers.end(), before_in(order));
  return numbers;
}

// Numbers of all types as words with the order that belongs_before() tells, so that what sorts them
// is compiled once.
template <typename T>
std::uint64_t ordinal(T number) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  if constexpr (std::is_enum_v<T>) {
    return ordinal(static_cast<std::underlying_type_t<T>>(number));
  } else if constexpr (std::floating_point<T>) {
    // A sign and a magnitude.
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    const auto bits = std::uint64_t{std::bit_cast<Bits>(number)} << (64 - 8 * sizeof(T));
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(number)) ^ kSign;
  } else {
    return number;
  }
}
// The places that a stable sort takes records with such ordinals from.
inline std::vector<std::size_t> stable_places(const std::vector<std::uint64_t>& ordinals,
                                              Order order) {
  std::vector<std::size_t> places(ordinals.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t left, std::size_t right) {
    return order == Order::kAscending ? ordinals[left] < ordinals[right]
                                      : ordinals[right] < ordinals[left];
  });
  return places;
}
template <typename T, typename Key>
std::vector<T> stably_sorted_by(std::vector<T> records, Key key, Order order = Order::kAscending) {
  using Number = std::remove_cvref_t<decltype(key(records[0]))>;
  if constexpr (std::is_arithmetic_v<Number> || std::is_enum_v<Number>) {
    std::vector<std::uint64_t> ordinals(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) ordinals[i] = ordinal<Number>(key(records[i]));
    std::vector<T> sorted(records.size());
    const std::vector<std::size_t> places = stable_places(ordinals, order);
    for (std::size_t i = 0; i < records.size(); ++i) sorted[i] = records[places[i]];
    return sorted;
  } else {
    std::stable_sort(records.begin(), records.end(), before_by(key, order));
    return records;
  }
}

// The inverse of to_key_bits().
template <RadixKey K>
constexpr K from_key_bits(KeyBits<K> bits) noexcept {
  constexpr KeyEncoder<KeyBits<K>> kEncoder(key_code<K>(Order::kAscending));
  if constexpr (std::floating_point<K>) {
    return std::bit_cast<K>(kEncoder.decode(bits));
  } else {
    return static_cast<K>(kEncoder.decode(bits));
  }
}

template <typename Random>
Order random_direction(Random& random) {
  return random() % 2 == 0 ? Order::kAscending : Order::kDescending;
}

}  // namespace vortex::test
