// Arrays that need no sorting.
#pragma once

#include <algorithm>
#include <cstddef>

namespace vortex { inline namespace v0 { namespace detail {

enum class Presorted { kNo, kAscending, kStrictlyDescending };

// Reads only as far as the answer takes: a few records of an array in random order, all of one in
// order (constant arrays are ascending).
template <typename Record, typename KeyOf>
Presorted presorted(const Record* records, std::size_t count, KeyOf key_of) noexcept {
  // In blocks, so that the loop inside has no branches.
  constexpr std::size_t kBlock = 256;
  auto holds = [&](auto in_order) {
    for (std::size_t begin = 1; begin < count; begin += kBlock) {
      const std::size_t end = std::min(begin + kBlock, count);
      unsigned wrong = 0;
      for (std::size_t i = begin; i < end; ++i) {
        wrong |= static_cast<unsigned>(!in_order(key_of(records[i - 1]), key_of(records[i])));
      }
      if (wrong != 0) return false;
    }
    return true;
  };
  if (holds([](auto a, auto b) { return a <= b; })) return Presorted::kAscending;
  if (holds([](auto a, auto b) { return a > b; })) return Presorted::kStrictlyDescending;
  return Presorted::kNo;
}

// Sorts records that need no more than to be turned round, if that. False: they need sorting.
template <typename Record, typename KeyOf>
bool sorted_or_reversed(Record* records, std::size_t count, KeyOf key_of) noexcept {
  const Presorted order = presorted(records, count, key_of);
  if (order == Presorted::kStrictlyDescending) std::reverse(records, records + count);
  return order != Presorted::kNo;
}

}}}  // namespace vortex::v0::detail
