// What requests cost disks, known by their file systems.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// What requests cost the disks of file systems, each measured once: who asks meanwhile waits. Any
// number of threads.
class RequestCosts {
 public:
  // Measures in a folder. None: it cannot, and the next one that asks tries again.
  using Measure = std::function<std::optional<std::uint64_t>(const std::string& folder)>;

  // The most of these folders, all measured at a time, but one of each file system; what cannot be
  // measured counts for nothing, since a sort that needs it will say what is wrong.
  std::uint64_t most_of(const std::vector<std::string>& folders, const Measure& measure);

 private:
  struct Known {
    std::mutex mutex;
    std::optional<std::uint64_t> cost;
  };

  Known& known(dev_t file_system);

  const pid_t process_ = getpid();
  std::mutex mutex_;  // guards the map
  std::map<dev_t, Known> known_;
};

}}  // namespace vortex::v0
