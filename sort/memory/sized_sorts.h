// Sorts of records of usual sizes, compiled in a file of their own: one of a size is as much code
// as one of pairs, and takes as long to compile.
#pragma once

#include <cstddef>

#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts records of one of kCompiledSizes by any key, as sort_records() does.
void sort_compiled_size(void* records, std::size_t count, std::size_t record_bytes,
                        const SortKey& key, unsigned threads);

}}}  // namespace vortex::v0::detail
