// The order of numbers, for what is told of their keys.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <concepts>
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
template <typename T, typename Key>
std::vector<T> stably_sorted_by(std::vector<T> records, Key key, Order order = Order::kAscending) {
  std::stable_sort(records.begin(), records.end(), before_by(key, order));
  return records;
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
Order random_order(Random& random) {
  return random() % 2 == 0 ? Order::kAscending : Order::kDescending;
}

}  // namespace vortex::test
