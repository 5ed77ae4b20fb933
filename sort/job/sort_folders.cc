#include "sort/job/sort_folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/block_file.h"
#include "io/name/path_names.h"
#include "sort/job/request_costs.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

std::unique_ptr<Disk> make_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                const std::string& folder) {
  if (open_disk) return open_disk(folder);
  DiskOptions options;
  options.backend = backend;
  options.name = folder.empty() ? "inputs and output" : "runs in " + folder;
  return vortex::open_disk(options);
}

}  // namespace

std::unique_ptr<Disk> open_sort_disk(const SortDiskFunction& open_disk, DiskBackend backend,
                                     const std::string& folder) {
  std::unique_ptr<Disk> disk = make_disk(open_disk, backend, folder);
  if (disk == nullptr) throw Error(EINVAL, "the function that makes disks has made none");
  if (ActivityLog* const log = Working::log()) disk->report_to(*log);
  return disk;
}

dev_t file_system_of(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) throw Error(errno, "keep runs in '" + folder + "'");
  if (!S_ISDIR(status.st_mode)) throw Error(ENOTDIR, "keep runs in '" + folder + "'");
  return status.st_dev;
}

std::string temporary_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

std::string default_run_folder(const std::string& output) {
  struct stat target {};
  const bool stays_no_file = stat(output.c_str(), &target) == 0 && !S_ISREG(target.st_mode);
  return output == "-" || stays_no_file ? temporary_folder() : folder_of(followed_links(output));
}

std::vector<std::string> folders_of_sorter(const SortResources& resources) {
  std::vector<std::string> folders = resources.folders;
  if (folders.empty()) folders.push_back(temporary_folder());
  for (const std::string& folder : folders) file_system_of(folder);
  return folders;
}

bool punches_holes(const std::string& folder) {
  return BlockFile::temporary(folder, false).punch_hole(0, std::uint64_t{1} << 20);
}

namespace {

std::optional<std::uint64_t> measured_in(const SortResources& resources,
                                         const std::string& folder) {
  const DiskSpeedOptions options{.bytes = std::uint64_t{16} << 20,
                                 .most_ns = 100'000'000,
                                 .request_bytes = std::size_t{256} << 10};
  try {
    // Requests to files in memory are work of processors, which plans count as work of blocks.
    if (!resources.open_disk && BlockFile::temporary(folder, false).in_memory()) return 0;
    const std::unique_ptr<Disk> disk =
        open_sort_disk(resources.open_disk, resources.backend, folder);
    return static_cast<std::uint64_t>(measure_request_cost(*disk, folder, options));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::uint64_t request_cost_of(const SortResources& resources,
                              const std::vector<std::string>& folders) {
  static RequestCosts costs;
  const auto measure = [&](const std::string& folder) { return measured_in(resources, folder); };
  if (!resources.open_disk) return costs.most_of(folders, measure);
  // Disks that a program makes are not known by their file systems.
  std::uint64_t most = 0;
  for (const std::string& folder : folders) most = std::max(most, measure(folder).value_or(0));
  return most;
}

void expect_room_for_runs(const std::vector<std::string>& folders, std::uint64_t bytes) {
  std::set<dev_t> seen;
  std::uint64_t room = 0;
  std::string names;
  for (const std::string& folder : folders) {
    if (!seen.insert(file_system_of(folder)).second) continue;
    const std::optional<std::uint64_t> free = free_bytes_in(folder);
    if (!free) return;  // writes will tell
    room += *free;
    names += (names.empty() ? "'" : ", '") + folder + "'";
  }
  if (room >= bytes) return;
  throw Error(ENOSPC, "the runs of the sort take at least " + format_bytes(bytes) + ", and " +
                          names + (seen.size() == 1 ? " has " : " have ") + format_bytes(room) +
                          " left: keep runs in a folder with more room, or in several");
}

}}  // namespace vortex::v0
