// The control groups of the process.
#pragma once

#include <functional>
#include <string>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

enum class GroupVersion { k1, k2 };

// Calls `look` with the folder, "/" at its end, of each control group that may limit the process by
// `controller` ("cpu", "memory"): its own and all above it, of version 2 and of version 1. A folder
// need not exist: inside a container the path may be the host's, and then only the mount itself can
// be seen. Reads /proc/self/cgroup; `root` stands before every path, and is empty except in tests.
VORTEX_EXPORT void look_at_control_groups(
    const std::string& root, const std::string& controller,
    const std::function<void(const std::string& folder, GroupVersion version)>& look);

}}  // namespace vortex::v0
