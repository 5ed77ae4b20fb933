// Keys that have come lately, so that equal records are dropped before they are sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lines/stored_record.h"

namespace vortex::inline v0 {

// A hash table in which a later key replaces one with the same place: it finds many of the equal
// keys, and a sort finds the others. Where few are equal it looks at a few keys now and then only.
//
// It refers to stored records, and forget() must be called before one of them moves or ends.
class RecentKeys {
 public:
  // Its own memory is a small part of `arena_bytes`, that of the records.
  RecentKeys(std::size_t arena_bytes, bool has_keys);

  // Whether an equal key is known. If not, note() may be called with the record of this one.
  bool contains(std::string_view key) noexcept;
  void note(const char* stored) noexcept {
    if (slot_ != nullptr) *slot_ = {chunk_, stored};
  }
  void forget() noexcept;

 private:
  struct Place {
    std::uint64_t chunk = 0;  // the first of the key
    const char* stored = nullptr;
  };

  const bool has_keys_;
  std::vector<Place> table_;  // a power of two of them
  const int shift_;           // from a hash to its place
  Place* slot_ = nullptr;     // of the key that was asked for last; null: none
  std::uint64_t chunk_ = 0;
  std::uint64_t asked_ = 0;  // since the last decision whether it is worth it
  std::uint64_t found_ = 0;
  std::uint64_t skip_ = 0;  // so many keys are not looked at
};

}  // namespace vortex::inline v0
