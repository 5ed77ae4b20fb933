// The limits of the numbers that a sort is given, in one place.
#pragma once

#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// Each throws Error(EINVAL) that names the number and its limit: what is wrong is told before
// anything is opened, whatever the records are.
void expect_limits(const SortResources& resources);
void expect_limits(const SortPlanRequest& request);

}}  // namespace vortex::v0
