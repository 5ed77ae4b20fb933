#include "sort/job/request_costs.h"

#include <sys/types.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "sort/job/sort_folders.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/disk.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// 0: it cannot be measured.
std::uint64_t measured_in(const SortResources& resources, const std::string& folder) {
  const DiskSpeedOptions options{.bytes = std::uint64_t{16} << 20,
                                 .most_ns = 100'000'000,
                                 .request_bytes = std::size_t{256} << 10};
  try {
    const std::unique_ptr<Disk> disk =
        open_sort_disk(resources.open_disk, resources.backend, folder);
    return static_cast<std::uint64_t>(measure_request_cost(*disk, folder, options));
  } catch (const Error&) {
    return 0;
  }
}

// Disks that a program makes are not known by their file systems.
std::uint64_t cost_of(const SortResources& resources, const std::string& folder) {
  static std::mutex mutex;
  static std::map<dev_t, std::uint64_t> known;  // for the life of the process
  if (resources.open_disk) return measured_in(resources, folder);
  dev_t file_system{};
  try {
    file_system = file_system_of(folder);
  } catch (const Error&) {
    return 0;  // a sort that needs the folder says what is wrong
  }
  {
    const std::scoped_lock lock(mutex);
    if (const auto found = known.find(file_system); found != known.end()) return found->second;
  }
  const std::uint64_t cost = measured_in(resources, folder);
  const std::scoped_lock lock(mutex);
  return known.emplace(file_system, cost).first->second;
}

}  // namespace

std::uint64_t request_cost_of(const SortResources& resources,
                              const std::vector<std::string>& folders) {
  std::vector<std::uint64_t> costs(folders.size());
  detail::ThreadTeam team(static_cast<unsigned>(folders.size()));
  team.run(folders.size(), [&](std::size_t i) { costs[i] = cost_of(resources, folders[i]); });
  return *std::ranges::max_element(costs);
}

}}  // namespace vortex::v0
