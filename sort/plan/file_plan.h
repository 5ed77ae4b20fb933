// Plans for files: little memory where there is little to sort, more where they are merged.
#pragma once

#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// As plan_sort(), but an input much smaller than the memory gets no more of it than four times its
// length, or 16 MiB.
SortPlan plan_thriftily(const SortPlanRequest& request);

// As plan_thriftily(), for `inputs` inputs that are merged because they are sorted already: two at
// a time at least, each read on its own. Throws Error(ENOMEM) with the least that would do.
SortPlan plan_input_merge(const SortPlanRequest& request, std::uint64_t inputs);

}}  // namespace vortex::v0
