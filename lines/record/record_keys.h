// The keys of a batch of records.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Leaves the keys of these records in `batch`, and no others. Throws Error(EINVAL) when it is not
// one for each record, and what `keys` throws.
void make_keys(const RecordKeys& keys, std::span<const std::string_view> records, KeyBatch& batch);

// Keys of longer records are made one at a time, where the memory of the sort has room for them.
inline constexpr std::size_t kLongRecord = std::size_t{8} << 10;

// How many of the first records have their keys made together; 0: the first one is long.
std::size_t records_together(std::span<const std::string_view> records) noexcept;

}}  // namespace vortex::v0
