#include "sort/job/sort_disk.h"

#include "io/disk/open_disk.h"

namespace vortex::inline v0 {

std::unique_ptr<Disk> open_sort_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                     const std::string& folder) {
  if (open_disk) return open_disk(folder);
  OpenDiskOptions options;
  options.backend = backend;
  options.name = folder.empty() ? "inputs and output" : "runs in " + folder;
  return vortex::open_disk(options);
}

}  // namespace vortex::inline v0
