// Few doubles, compared as such: a processor takes the least of two in one operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

inline constexpr std::uint64_t kSignOfDouble = std::uint64_t{1} << 63;

// Sorts the bits of doubles in their total order, or the other way round. Returns false, with
// nothing changed, where one is a NaN.
//   negative_zeros(words, count)   how many are -0.0, or more than there are where one is a NaN
//   sort(words, count)             takes zeros of both signs for equal
template <typename NegativeZeros, typename Sort>
bool sort_doubles(std::uint64_t* words, std::size_t count, bool descending,
                  const NegativeZeros& negative_zeros, const Sort& sort) noexcept {
  const auto turn = [=] {
    if (!descending) return;
    for (std::size_t i = 0; i < count; ++i) words[i] ^= kSignOfDouble;
  };
  turn();
  const std::size_t negative = negative_zeros(words, count);
  if (negative > count) return turn(), false;
  sort(words, count);
  if (negative != 0) {
    const auto is_below = [](std::uint64_t word) {
      return (word & kSignOfDouble) != 0 && word != kSignOfDouble;
    };
    auto* at = std::partition_point(words, words + count, is_below);
    for (std::size_t i = 0; at != words + count && (*at & ~kSignOfDouble) == 0; ++at, ++i) {
      *at = i < negative ? kSignOfDouble : 0;
    }
  }
  turn();
  return true;
}

}}}  // namespace vortex::v0::detail
