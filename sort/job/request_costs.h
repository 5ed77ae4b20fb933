// What requests cost the disks of a sort, measured at first use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// What a request costs the disk of one of these folders, one at least, at most, in bytes: see
// measure_request_cost(). Each file system is measured once in the life of the process, all at a
// time, which takes three tenths of a second at most, 16 MiB of room and 1 MiB of memory each; one
// where that fails counts for nothing, since the sort will say what is wrong. Throws Error as
// file_system_of() does. Any number of threads may call it.
std::uint64_t request_cost_of(const SortResources& resources,
                              const std::vector<std::string>& folders);

}}  // namespace vortex::v0
