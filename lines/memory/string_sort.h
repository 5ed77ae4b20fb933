// Sorting strings by an index of their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lines/record/stored_record.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 {

// The first chunk of a record's key, inverted where the order is descending, and its place:
// for stored records its address, for views its number. Places ascend with the order of the input.
using IndexEntry = KeyValue<std::uint64_t, std::uint64_t>;

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

// A sort leaves this chunk, which no string has, in an entry that is equal to the one in front of
// it: with a unique order their keys are equal, with a counted order their records.
inline constexpr std::uint64_t kSameKey = 0x40;

// The records of entries that are stored, and of those that are viewed.
class StoredStrings {
 public:
  explicit StoredStrings(bool has_keys) : has_keys_(has_keys) {}
  StoredRecord operator()(const IndexEntry& entry) const noexcept {
    return stored_record_at(stored_at(entry), has_keys_);
  }
  // The lengths, and the bytes at about `depth`.
  void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(stored_at(entry));
    __builtin_prefetch(reinterpret_cast<const char*>(
        reinterpret_cast<std::uintptr_t>(stored_at(entry)) + depth + kChunkBytes));
  }

 private:
  bool has_keys_;
};

class ViewedStrings {
 public:
  ViewedStrings(std::span<const std::string_view> keys, std::span<const std::string_view> records)
      : keys_(keys.empty() ? records : keys), records_(records) {}
  StoredRecord operator()(const IndexEntry& entry) const noexcept {
    return {keys_[entry.value], records_[entry.value]};
  }
  void prefetch(const IndexEntry& entry, std::size_t depth) const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(
        reinterpret_cast<std::uintptr_t>(keys_[entry.value].data()) + depth));
  }

 private:
  std::span<const std::string_view> keys_;
  std::span<const std::string_view> records_;
};

// Sorts an index. The entries are sorted by their chunks, eight bytes at a time in cache-friendly
// passes of the radix sort; where chunks are equal, those behind the longest common prefix take
// their place (caching multikey sort after Ng and Kakehi, with chunks of a radix sort instead of
// pivots). So each byte of a distinguishing prefix is looked at about once, and a common prefix of
// any length is skipped at the speed of memory.
//
// Records whose keys are equal are sorted as the order says; where a record is its own key, their
// order does not matter and is any. Takes the memory of vortex::sort() besides, and for nested
// common prefixes a few bytes for each level.
void sort_stored(std::span<IndexEntry> index, const StoredOrder& order, detail::ThreadTeam& team);

}}  // namespace vortex::v0
