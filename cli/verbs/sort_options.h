// The options that sorts of records and of lines have in common.
#pragma once

#include "cli/verbs/verbs.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {

// Refuses an output that is none, and standard input twice. Throws Error(EINVAL).
void expect_places(const SortOptions& options);

// Memory, folders, disks and threads, as the options name them. May measure the disks. Throws
// Error.
SortResources sort_resources(const SortOptions& options);

}  // namespace vortex::cli
