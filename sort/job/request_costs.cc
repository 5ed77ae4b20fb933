#include "sort/job/request_costs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "vortex/detail/array/thread_team.h"

namespace vortex { inline namespace v0 {

RequestCosts::Known& RequestCosts::known(dev_t file_system) {
  const std::scoped_lock lock(mutex_);
  return known_[file_system];
}

std::uint64_t RequestCosts::most_of(const std::vector<std::string>& folders,
                                    const Measure& measure) {
  // Folders of one disk would slow each other down.
  std::map<dev_t, std::string> of_each;
  for (const std::string& folder : folders) {
    struct stat status {};
    if (stat(folder.c_str(), &status) == 0) of_each.emplace(status.st_dev, folder);
  }
  const std::vector<std::pair<dev_t, std::string>> measured(of_each.begin(), of_each.end());
  std::vector<std::uint64_t> costs(measured.size());
  detail::ThreadTeam team(static_cast<unsigned>(std::max<std::size_t>(measured.size(), 1)));
  team.run(measured.size(), [&](std::size_t i) {
    // In a forked child the locks may be held by threads that are not there.
    if (process_ != getpid()) {
      costs[i] = measure(measured[i].second).value_or(0);
      return;
    }
    Known& here = known(measured[i].first);
    const std::scoped_lock lock(here.mutex);
    if (!here.cost) here.cost = measure(measured[i].second);
    costs[i] = here.cost.value_or(0);
  });
  return costs.empty() ? 0 : *std::ranges::max_element(costs);
}

}}  // namespace vortex::v0
