#include "sort/memory_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "vortex/error.h"

namespace vortex {
namespace {

std::uint64_t address_space_taken() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Version 1 says "no limit" with the largest multiple of the page size.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value) || value >= kNoLimit) return std::nullopt;  // "max" is no number
  return value;
}

// Looks at `file` in the group's folder and in all folders above it.
void look_upwards(MemoryLimits& limits, const std::string& mount, std::string group,
                  const std::string& file) {
  for (;;) {
    std::string path = mount;
    if (group != "/") path += group;
    path += "/";
    path += file;
    const std::optional<std::uint64_t> found = number_in(path);
    if (found && (!limits.group_bytes || *found < *limits.group_bytes)) {
      limits.group_bytes = found;
      limits.group_file = path;
    }
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos || group == "/") return;
    group.resize(slash == 0 ? 1 : slash);
  }
}

void read_groups(MemoryLimits& limits, const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // HIERARCHY:CONTROLLERS:PATH
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const std::string mount = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      look_upwards(limits, mount, path, "memory.max");
      look_upwards(limits, mount + "/unified", path, "memory.max");
    } else if (controllers == "memory") {
      // Inside a container the path may be the host's; then only the mount itself can be seen.
      look_upwards(limits, mount + "/memory", path, "memory.limit_in_bytes");
    }
  }
}

}  // namespace

MemoryLimits memory_limits(const std::string& root) {
  MemoryLimits limits;
  std::ifstream machine(root + "/proc/meminfo");
  for (std::string line; std::getline(machine, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (!(words >> name >> kibibytes)) continue;
    if (name == "MemTotal:") limits.machine_bytes = kibibytes << 10;
    if (name == "MemAvailable:") limits.available_bytes = kibibytes << 10;
  }
  if (limits.machine_bytes == 0) {  // there is no /proc
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    limits.machine_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page;
    limits.available_bytes = static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * page;
  }
  read_groups(limits, root);
  return limits;
}

std::uint64_t address_space_left() {
  // Half of what a process on x86-64 has.
  constexpr std::uint64_t kPlenty = std::uint64_t{1} << 46;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kPlenty;
  const std::uint64_t taken = address_space_taken();
  return std::min<std::uint64_t>(limit.rlim_cur - std::min<std::uint64_t>(taken, limit.rlim_cur),
                                 kPlenty);
}

void expect_address_space(std::uint64_t bytes) {
  if (bytes <= address_space_left()) return;
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  throw Error(
      ENOMEM,
      "the sort takes " + format_bytes(bytes) + " of address space for its streams, beside " +
          format_bytes(address_space_taken()) + " that the process has, and " +
          (limited ? "RLIMIT_AS is " + format_bytes(limit.rlim_cur) + ": raise it (ulimit -v), or"
                   : "there are " + format_bytes(address_space_left()) + " for it:") +
          " sort with less memory (-S)");
}

}  // namespace vortex
