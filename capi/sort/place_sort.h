// Sorts records in memory, where they are, by a format that is known when the program runs.
#pragma once

#include <cstddef>

#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// Stable. The leading bits of the keys are sorted with the places that they come from, by up to
// `threads` threads as sort() does it; places with equal bits are sorted by the keys, where the
// bits do not decide; then each record moves once. Takes 16 bytes a record, what sorting those
// takes, and a record. Throws std::bad_alloc with nothing moved.
void sort_by_places(std::byte* records, std::size_t count, const RecordFormat& format,
                    unsigned threads);

}}  // namespace vortex::v0
