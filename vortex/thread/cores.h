// How many cores the process may use.
#pragma once

#include <string>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// The cores on which the calling thread may run (sched_getaffinity(2)), or fewer where a control
// group of the process or one above it has a quota of processor time (cpu.max of version 2,
// cpu.cfs_quota_us and cpu.cfs_period_us of version 1): a quota of 250 % counts as three cores. At
// least 1. Reads /proc/self/cgroup and the groups' files; tests say where else than in / these lie.
VORTEX_EXPORT unsigned usable_cores(const std::string& root = "");

}}  // namespace vortex::v0
