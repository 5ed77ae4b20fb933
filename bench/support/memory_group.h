// A control group whose memory is limited, for the time that an object lives.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "vortex/thread/control_groups.h"

namespace vortex::bench {

// The process, with all its threads, is a member meanwhile: what it allocates is counted, and the
// page cache that it fills. Version 2 or 1 of control groups, whichever has the memory controller.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::uint64_t bytes) {
    look_at_control_groups("", "memory", [this](const std::string& folder, GroupVersion version) {
      // The group of the process itself comes first, where it can be seen.
      const char* const limit =
          version == GroupVersion::k2 ? "memory.max" : "memory.limit_in_bytes";
      if (!parent_.empty() || access((folder + "cgroup.procs").c_str(), W_OK) != 0) return;
      if (version == GroupVersion::k2 && !std::filesystem::exists(folder + "cgroup.controllers")) {
        return;
      }
      parent_ = folder;
      limit_ = limit;
      version_ = version;
    });
    if (parent_.empty()) {
      refusal = "no memory control group can be made here";
      return;
    }
    group_ = parent_ + "vortex-bench-" + std::to_string(getpid()) + "/";
    std::error_code error;
    std::filesystem::create_directory(group_, error);
    if (error) {
      refusal = "making " + group_ + ": " + error.message();
    } else if (!put(group_ + limit_, bytes)) {
      refusal = "limiting " + group_ + ": " + std::strerror(errno);
    } else if (!put(group_ + "cgroup.procs", static_cast<std::uint64_t>(getpid()))) {
      refusal = "entering " + group_ + ": " + std::strerror(errno);
    } else {
      inside_ = true;
    }
  }
  ~MemoryGroup() {
    if (inside_) put(parent_ + "cgroup.procs", static_cast<std::uint64_t>(getpid()));
    if (!group_.empty()) rmdir(group_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // The most that was counted.
  std::uint64_t peak_bytes() const {
    std::uint64_t result = 0;
    std::ifstream(group_ +
                  (version_ == GroupVersion::k2 ? "memory.peak" : "memory.max_usage_in_bytes")) >>
        result;
    return result;
  }

  std::string refusal;  // why there is none; empty where there is

 private:
  static bool put(const std::string& file, std::uint64_t value) {
    std::ofstream out(file);
    out << value << std::flush;
    return out.good();
  }

  std::string parent_;
  std::string limit_;
  std::string group_;
  GroupVersion version_ = GroupVersion::k2;
  bool inside_ = false;
};

}  // namespace vortex::bench
