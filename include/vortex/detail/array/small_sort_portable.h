// The base case without vector instructions; stable, for any record.
#pragma once

#include <cstddef>
#include <cstring>

#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts like a SmallSort, by key(record), keeping the order of records with equal keys: insertion
// sort of runs of 8, then branch-free merging. Takes room for 2 * kMaxSmallSort records of the
// stack, which is why it is never made part of its callers: they call themselves.
template <typename Record, typename Key>
[[gnu::noinline]] void small_sort_stable(const Record* in, std::size_t count, Record* out,
                                         Key key) noexcept {
  if (count == 0) return;  // `in` may be null
  constexpr std::size_t kRun = 8;
  // Raw storage: records need not be default-constructible.
  alignas(Record) std::byte storage[2][kMaxSmallSort * sizeof(Record)];
  auto* from = reinterpret_cast<Record*>(storage[0]);
  auto* to = reinterpret_cast<Record*>(storage[1]);
  std::memcpy(static_cast<void*>(from), in, count * sizeof(Record));
  for (std::size_t begin = 0; begin < count; begin += kRun) {
    const std::size_t end = begin + kRun < count ? begin + kRun : count;
    for (std::size_t i = begin + 1; i < end; ++i) {
      const Record record = from[i];
      std::size_t hole = i;
      for (; hole > begin && key(record) < key(from[hole - 1]); --hole) from[hole] = from[hole - 1];
      from[hole] = record;
    }
  }
  for (std::size_t run = kRun; run < count; run *= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * run) {
      std::size_t left = begin;
      const std::size_t middle = begin + run < count ? begin + run : count;
      std::size_t right = middle;
      const std::size_t end = begin + 2 * run < count ? begin + 2 * run : count;
      std::size_t at = begin;
      while (left < middle && right < end) {
        const bool take_right = key(from[right]) < key(from[left]);
        to[at++] = from[take_right ? right : left];
        right += take_right;
        left += !take_right;
      }
      std::memcpy(static_cast<void*>(to + at), from + left, (middle - left) * sizeof(Record));
      at += middle - left;
      std::memcpy(static_cast<void*>(to + at), from + right, (end - right) * sizeof(Record));
    }
    Record* const swap = from;
    from = to;
    to = swap;
  }
  std::memcpy(static_cast<void*>(out), from, count * sizeof(Record));
}

}}}  // namespace vortex::v0::detail
