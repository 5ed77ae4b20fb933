// Plans that leave memory alone where there is little to sort.
#pragma once

#include "sort/sort_plan.h"

namespace vortex {

// As plan_sort(), but an input much smaller than the memory gets no more of it than four times its
// length, or 16 MiB.
SortPlan plan_thriftily(const SortPlanRequest& request);

}  // namespace vortex
