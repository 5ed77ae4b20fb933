// Entries of an index of strings, shared among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "vortex/detail/record/sort_key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A chunk of a string, inverted where the order is descending, and what tells the string.
using IndexEntry = Pair64;

// A sort that marks equal entries leaves this chunk, which no string has, in each that is equal to
// the one in front of it.
inline constexpr std::uint64_t kSameKey = 0x40;

// Values become keys, and keys values.
inline void turn_entries(IndexEntry* begin, IndexEntry* end) noexcept {
  for (IndexEntry* entry = begin; entry != end; ++entry) std::swap(entry->key, entry->value);
}

// Up to here a comparison sort of the chunks is faster than the radix sort.
inline constexpr std::size_t kRadixEntries = 192;

inline bool before_by_chunk(const IndexEntry& a, const IndexEntry& b) noexcept {
  return a.key < b.key;
}
inline void sort_by_chunk(std::span<IndexEntry> entries, unsigned threads) {
  if (entries.size() < kRadixEntries) {
    std::sort(entries.begin(), entries.end(), before_by_chunk);
  } else {
    detail::sort_pairs_64(entries.data(), entries.size(), false, threads);
  }
}

// Makes it the least of what threads have found.
template <typename T>
void lower(std::atomic<T>& least, T found) noexcept {
  T known = least.load(std::memory_order_relaxed);
  while (found < known && !least.compare_exchange_weak(known, found, std::memory_order_relaxed)) {
  }
}

// Into how many parts an array is cut for the threads of a team.
template <typename Team>
std::size_t parts_for(const Team& team) noexcept {
  return team.threads() == 1 ? 1 : 8 * std::size_t{team.threads()};
}

// Calls use(begin, end) with parts of `count` items, by all threads; some are empty where there are
// fewer items. Does not allocate, so that it may follow what must not fail.
template <typename Team, typename Use>
void in_parts(std::size_t count, Team& team, const Use& use) {
  const std::size_t parts = parts_for(team);
  const auto part = [&](std::size_t i) { use(count * i / parts, count * (i + 1) / parts); };
  team.run(parts, std::cref(part));  // a copy would take memory
}

// Brings the entries that `stays` tells to the front, in their order; the others come behind them
// in any. Only the values of entries are told then, and no key is a mark. Returns how many are in
// front.
template <typename Team, typename Stays>
std::size_t bring_to_front(std::span<IndexEntry> index, Team& team, const Stays& stays) {
  const std::size_t parts = parts_for(team);
  std::vector<std::size_t> kept(parts + 1);  // in front of each part
  const auto begin_of = [&](std::size_t part) { return index.size() * part / parts; };
  team.run(parts, [&](std::size_t i) {
    const std::size_t begin = begin_of(i);
    std::size_t front = begin;
    for (IndexEntry& entry : index.subspan(begin, begin_of(i + 1) - begin)) {
      if (stays(entry)) std::swap(index[front++], entry);
    }
    kept[i + 1] = front - begin;
  });
  for (std::size_t i = 0; i < parts; ++i) kept[i + 1] += kept[i];
  if (parts == 1) return kept[1];
  // A value goes where the key of an entry was, so that no thread writes what another one reads.
  team.run(parts, [&](std::size_t i) {
    const std::size_t begin = begin_of(i), end = begin_of(i + 1);
    const std::size_t front = begin + kept[i + 1] - kept[i];
    std::size_t to = kept[i];
    for (std::size_t at = begin; at < front; ++at) index[to++].key = index[at].value;
    to = kept[parts] + begin - kept[i];
    for (std::size_t at = front; at < end; ++at) index[to++].key = index[at].value;
  });
  in_parts(index.size(), team, [&](std::size_t begin, std::size_t end) {
    for (IndexEntry& entry : index.subspan(begin, end - begin)) entry = {0, entry.key};
  });
  return kept[parts];
}

// The same of those that are not marked.
template <typename Team>
std::size_t marked_last(std::span<IndexEntry> index, Team& team) {
  return bring_to_front(index, team, [](const IndexEntry& e) { return e.key != kSameKey; });
}

}}  // namespace vortex::v0
