#include "vortex/thread/control_groups.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <limits>
#include <memory>
#include <set>

namespace vortex { inline namespace v0 {

void look_at_control_groups(
    const std::string& root, const std::string& controller,
    const std::function<void(const std::string& folder, GroupVersion version)>& look) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // HIERARCHY:CONTROLLERS:PATH
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    GroupVersion version = GroupVersion::k2;
    std::set<std::string> mounts = {mount, mount + "/unified"};
    if (!controllers.empty()) {
      if (("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
      // Mounted under all its names, and under one as a link.
      version = GroupVersion::k1;
      mounts = {mount + "/" + controller, mount + "/" + controllers};
    }
    for (const std::string& at : mounts) {
      std::string group = line.substr(second + 1);
      for (;;) {
        look(at + (group == "/" ? "" : group) + "/", version);
        const std::size_t slash = group.rfind('/');
        if (slash == std::string::npos || group == "/") break;
        group.resize(slash == 0 ? 1 : slash);
      }
    }
  }
}

namespace {

std::atomic<unsigned> assumed{0};

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};

unsigned cores_by_affinity() {
  // The kernel refuses a set that is smaller than its own.
  constexpr std::size_t kMaxCores = std::size_t{1} << 20;
  for (std::size_t cores = 1024; cores <= kMaxCores; cores *= 2) {
    const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(cores));
    const std::size_t bytes = CPU_ALLOC_SIZE(cores);
    if (set == nullptr) break;
    if (sched_getaffinity(0, bytes, set.get()) == 0) {
      return static_cast<unsigned>(CPU_COUNT_S(bytes, set.get()));
    }
    if (errno != EINVAL) break;
  }
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<unsigned>(online) : 1;
}

// The cores' worth of time that the group in `folder` has for itself and those below it.
double quota_in(const std::string& folder, GroupVersion version) {
  double quota = 0, period = 0;
  if (version == GroupVersion::k1) {
    std::ifstream(folder + "cpu.cfs_quota_us") >> quota;  // -1: none
    std::ifstream(folder + "cpu.cfs_period_us") >> period;
  } else {
    std::ifstream(folder + "cpu.max") >> quota >> period;  // "max" is no number
  }
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

double quota_of_groups(const std::string& root) {
  double least = kNoQuota;
  look_at_control_groups(root, "cpu", [&least](const std::string& folder, GroupVersion version) {
    least = std::min(least, quota_in(folder, version));
  });
  return least;
}

}  // namespace

unsigned usable_cores(const std::string& root) {
  const unsigned cores = std::max(cores_by_affinity(), 1u);
  const double quota = quota_of_groups(root);
  if (quota >= cores) return cores;
  const auto whole = static_cast<unsigned>(quota);
  return std::max(quota > whole ? whole + 1 : whole, 1u);
}

void assume_cores(unsigned cores) noexcept { assumed.store(cores, std::memory_order_relaxed); }
unsigned assumed_cores() noexcept { return assumed.load(std::memory_order_relaxed); }

}}  // namespace vortex::v0
