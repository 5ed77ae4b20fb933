// Keys that have come lately, so that equal records are dropped or counted before they are sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lines/memory/string_sort.h"
#include "lines/record/stored_record.h"

namespace vortex { inline namespace v0 {

// A hash table in which a later key replaces one with the same place: it finds many of the equal
// keys, and a sort finds the others. Where few are equal it looks at a few keys now and then only.
// With a unique order the keys are those of the records, or where these were shortened their bytes;
// with a counted order, where records are equal whose bytes are, these bytes, and the entry of the
// first counts the others.
//
// It refers to entries of an index and their records: forget() must be called before one of them
// moves, ends, or is asked for its count.
class RecentKeys {
 public:
  // Its own memory is a small part of `arena_bytes`, that of the records.
  RecentKeys(std::size_t arena_bytes, const StoredOrder& order);

  // Whether an equal key is known; then it is counted, where the order is. If not, note() may be
  // called with the entry of this one.
  bool contains(std::string_view key, std::string_view record) noexcept;
  void note(IndexEntry& entry) noexcept {
    if (slot_ == nullptr) return;
    give_count(*slot_);
    *slot_ = {chunk_, stored_at(entry), &entry, 0};
  }
  void forget() noexcept;

 private:
  struct Place {
    std::uint64_t chunk = 0;  // the first of the key
    const char* stored = nullptr;
    IndexEntry* entry = nullptr;
    std::uint64_t repeats = 0;  // not yet given to the entry
  };

  static void give_count(Place& place) noexcept {
    if (place.repeats != 0) add_repeats(*place.entry, place.repeats);
    place.repeats = 0;
  }

  const StoredOrder order_;
  const bool by_record_;      // else by keys
  std::vector<Place> table_;  // a power of two of them
  const int shift_;           // from a hash to its place
  Place* slot_ = nullptr;     // of the key that was asked for last; null: none
  std::uint64_t chunk_ = 0;
  std::uint64_t asked_ = 0;  // since the last decision whether it is worth it
  std::uint64_t found_ = 0;
  std::uint64_t skip_ = 0;  // so many keys are not looked at
};

}}  // namespace vortex::v0
