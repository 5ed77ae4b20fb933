// Keys of records: made for a batch, and made whole where they were shortened.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Leaves the keys of these records in `batch`, and no others. Throws Error(EINVAL) when it is not
// one for each record, and what `keys` throws.
void make_keys(const RecordKeys& keys, std::span<const std::string_view> records, KeyBatch& batch);
// The same, behind those that are there.
void append_keys(const RecordKeys& keys, std::span<const std::string_view> records,
                 KeyBatch& batch);

// Keys of longer records are made one at a time, where the memory of the sort has room for them.
inline constexpr std::size_t kLongRecord = std::size_t{8} << 10;

// How many of the first records have their keys made together; 0: the first one is long.
std::size_t records_together(std::span<const std::string_view> records) noexcept;

// Room for the whole keys of one order.
class WholeKey {
 public:
  // Returns the whole key of a record, valid until the next call. It is made once for equal records
  // that follow each other; the last one must still be there.
  std::string_view of(std::string_view record, const RecordKeys& keys);

 private:
  std::string_view record_;
  std::string key_;
  bool made_ = false;
};

// Returns a number below 0 where the whole key of `a` is less, 0 where they are equal. It must be
// called inside guarded() where the records lie in streams.
int compare_whole_keys(std::string_view a, std::string_view b, const RecordKeys& keys);

// Compares keys that are made for it, as RecordKeys does by itself.
int compare_made_keys(std::string_view a, std::string_view b, const RecordKeys& keys);

}}  // namespace vortex::v0
