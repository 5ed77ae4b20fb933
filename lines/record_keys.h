// The keys of a batch of records.
#pragma once

#include <span>
#include <string_view>

#include "vortex/line_sort.h"

namespace vortex::inline v0 {

// Leaves the keys of these records in `batch`, and no others. Throws Error(EINVAL) when it is not
// one for each record, and what `keys` throws.
void make_keys(const RecordKeys& keys, std::span<const std::string_view> records, KeyBatch& batch);

}  // namespace vortex::inline v0
