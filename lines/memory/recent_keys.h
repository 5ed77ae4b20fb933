// Keys that have come lately, so that equal records are dropped or counted before they are sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "lines/memory/string_sort.h"
#include "lines/record/stored_record.h"

namespace vortex { inline namespace v0 {

// A hash table in which a later key replaces one with the same place, unless that has been found
// since the last one wanted the place: it finds many of the equal keys, and a sort finds the
// others. Where few are equal it looks at a few keys now and then only. With a unique order it
// looks for the keys of the records, or for their bytes where keys were shortened. With a counted
// order it looks for the bytes, and the entry of the first record counts the others.
//
// Several threads may have a table each for records of one arena: a table counts what it finds in
// the entries that it was told of, and in no others.
//
// It refers to entries of an index and their records: forget() must be called before one of them
// moves, ends, or is asked for its count.
class RecentKeys {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // a core's cache holds them

  // Takes `most_bytes` of memory at most, and no more than kMostBytes. Allocates.
  RecentKeys(std::size_t most_bytes, const StoredOrder& order);

  // Returns whether an equal key is known; a counted order counts it then. If not, note() may be
  // called with the entry of this record.
  bool contains(std::string_view key, std::string_view record) noexcept;
  // Whether none of the next `keys` is looked at; they are passed over then.
  bool passes(std::uint64_t keys) noexcept;
  void note(IndexEntry& entry) noexcept {
    if (slot_ == nullptr || std::exchange(slot_->found, false)) return;
    give_count(*slot_);
    *slot_ = {chunk_, stored_at(entry), &entry};
  }
  // The same of one that was asked for before others.
  void note(std::string_view key, std::string_view record, IndexEntry& entry) noexcept {
    find(by_record_ ? record : key);
    note(entry);
  }
  void forget() noexcept;

 private:
  struct Place {
    std::uint64_t chunk = 0;  // the first of the key
    const char* stored = nullptr;
    IndexEntry* entry = nullptr;
    std::uint32_t repeats = 0;  // not yet given to the entry
    bool found = false;
  };

  void find(std::string_view bytes) noexcept;
  static void give_count(Place& place) noexcept {
    if (place.repeats != 0) add_repeats(*place.entry, place.repeats);
    place.repeats = 0;
  }

  const StoredOrder order_;
  const bool by_record_;      // looks for the bytes of records, else for keys
  std::vector<Place> table_;  // a power of two of them
  const int shift_;           // from a hash to its place
  Place* slot_ = nullptr;     // of the key that was asked for last; null: none
  std::uint64_t chunk_ = 0;
  std::uint64_t asked_ = 0;  // since the last decision whether it is worth it
  std::uint64_t found_ = 0;
  std::uint64_t skip_ = 0;  // the number of keys that are not looked at
};

}}  // namespace vortex::v0
