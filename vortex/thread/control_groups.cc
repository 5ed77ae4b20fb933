#include "vortex/thread/control_groups.h"

#include <cstddef>
#include <fstream>
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

}}  // namespace vortex::v0
