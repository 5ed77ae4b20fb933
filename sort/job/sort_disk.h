// How a sort comes by its disks.
#pragma once

#include <memory>
#include <string>

#include "vortex/disk.h"
#include "vortex/sort_resources.h"

namespace vortex::inline v0 {

// By `open_disk` if there is one, else a disk of the backend. It reports to the log that the
// calling thread works for. Throws Error as open_disk() does.
std::unique_ptr<Disk> open_sort_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                     const std::string& folder);

}  // namespace vortex::inline v0
