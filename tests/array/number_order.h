// The order of numbers, for what is told of their keys.
#pragma once

#include <compare>
#include <concepts>

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

}  // namespace vortex::test
