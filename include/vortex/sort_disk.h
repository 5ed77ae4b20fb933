// How a sort comes by its disks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "vortex/disk.h"

namespace vortex::inline v0 {

// Makes the disk of a folder in which runs are kept, or, for an empty name, the one that inputs are
// read and the output is written with. Disks of a kind or a depth of one's own come in here.
using SortDiskFunction = std::function<std::unique_ptr<Disk>(const std::string& folder)>;

// By `open_disk` if there is one, else a disk of the backend. Throws Error as open_disk() does.
std::unique_ptr<Disk> open_sort_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                     const std::string& folder);

}  // namespace vortex::inline v0
