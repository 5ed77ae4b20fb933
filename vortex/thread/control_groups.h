// The control groups of the process, and how many cores they leave it.
#pragma once

#include <functional>
#include <string>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

enum class GroupVersion { k1, k2 };

// Calls `look` with the folder, "/" at its end, of each control group that may limit the process by
// `controller` ("cpu", "memory"): its own and all above it, of version 2 and of version 1. A folder
// need not exist: inside a container the path may be the host's, and then only the mount itself can
// be seen. Reads /proc/self/cgroup; `root` stands before every path, and is empty except in tests.
VORTEX_EXPORT void look_at_control_groups(
    const std::string& root, const std::string& controller,
    const std::function<void(const std::string& folder, GroupVersion version)>& look);

// The cores on which the calling thread may run (sched_getaffinity(2)), or fewer where a control
// group of the process or one above it has a quota of processor time (cpu.max of version 2,
// cpu.cfs_quota_us and cpu.cfs_period_us of version 1): a quota of 250 % counts as three cores. At
// least 1. Reads /proc/self/cgroup and the groups' files; tests say where else than in / these lie.
VORTEX_EXPORT unsigned usable_cores(const std::string& root = "");

// Sorts start threads for so many cores at least, whatever the machine has: for tests of many
// threads, before any sort.
VORTEX_EXPORT void assume_cores(unsigned cores) noexcept;
VORTEX_EXPORT unsigned assumed_cores() noexcept;

}}  // namespace vortex::v0
