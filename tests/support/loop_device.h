// Block devices for a test.
#pragma once

#include <fstream>
#include <string>

#include "tests/support/small_file_system.h"

namespace vortex::test {

// A loop device that stands for one, over a file.
class LoopDevice {
 public:
  static constexpr const char* kRefusal = "no loop device can be had, which takes root and losetup";

  explicit LoopDevice(const std::string& image) {
    const std::string path = image + ".device";
    if (run_command("{ losetup -f --show '" + image + "' > '" + path + "'; }") != 0) return;
    std::ifstream(path) >> path_;
  }
  ~LoopDevice() {
    if (!path_.empty()) run_command("losetup -d " + path_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;

  const std::string& path() const { return path_; }  // empty: there is none

 private:
  std::string path_;
};

}  // namespace vortex::test
