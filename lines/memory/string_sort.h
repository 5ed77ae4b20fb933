// Records in memory, sorted by an index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lines/record/record_keys.h"
#include "lines/record/stored_record.h"
#include "sort/arrays/string_sort.h"
#include "vortex/detail/array/thread_team.h"

namespace vortex { inline namespace v0 {

// An entry's value is the place of its record: the address of a stored one, and the number of one
// that is viewed. Places ascend with the order of the input.
//
// An entry of a stored record may stand for several that are the same: the bits above its address
// say for how many more.
inline constexpr int kAddressBits = 48;
inline constexpr std::uint64_t kMaxRepeats = (std::uint64_t{1} << (64 - kAddressBits)) - 1;

inline const char* stored_at(const IndexEntry& entry) noexcept {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kAddressBits) - 1;
  return reinterpret_cast<const char*>(entry.value & kMask);
}
inline std::uint64_t repeats_of(const IndexEntry& entry) noexcept {
  return entry.value >> kAddressBits;
}
// An entry has room for kMaxRepeats in all.
inline void add_repeats(IndexEntry& entry, std::uint64_t repeats) noexcept {
  entry.value += repeats << kAddressBits;
}

// Sorts an index of stored records as StringSort does. Marks with kSameKey: with a unique order the
// keys of such an entry are equal to those in front of it, with a counted order the records.
//
// Records whose keys are equal are sorted as the order says; where a record is its own key, their
// order does not matter and is any.
void sort_stored(std::span<IndexEntry> index, const StoredOrder& order, detail::ThreadTeam& team);

}}  // namespace vortex::v0
