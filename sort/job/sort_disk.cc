#include "sort/job/sort_disk.h"

#include "io/disk/open_disk.h"
#include "vortex/os/activity.h"

namespace vortex::inline v0 {
namespace {

std::unique_ptr<Disk> make_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                const std::string& folder) {
  if (open_disk) return open_disk(folder);
  OpenDiskOptions options;
  options.backend = backend;
  options.name = folder.empty() ? "inputs and output" : "runs in " + folder;
  return vortex::open_disk(options);
}

}  // namespace

std::unique_ptr<Disk> open_sort_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                     const std::string& folder) {
  std::unique_ptr<Disk> disk = make_disk(open_disk, backend, folder);
  if (ActivityLog* const log = Working::log()) disk->report_to(*log);
  return disk;
}

}  // namespace vortex::inline v0
