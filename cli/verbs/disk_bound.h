// The least time in which files can be sorted by way of disks: the yardstick of external sorting.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vortex/disk.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {

// The least time that the disks need for a sort. Data that do not fit in memory are read from the
// input while they are written to the folders of the runs, then read from there while they are
// written to the output. Data that fit are read as a whole before any are written. Each file system
// is a disk of its own, whose speed is measured (include/vortex/disk.h), and the slowest disk of a
// phase decides. An input that is no file counts for nothing, and neither does an output that is
// none.
//
// Inputs in the page cache, or a file system spread over the same disk as another, make the bound
// wrong: the first can be beaten, the second cannot be reached.
class DiskBound {
 public:
  using SpeedOf = std::function<DiskSpeed(const std::string& folder)>;

  // Takes the speed of each file system of the sort once, in one of its folders. Blocks for up to
  // two seconds each when they are measured, as by default; throws Error.
  DiskBound(const std::vector<std::string>& inputs, const std::string& output,
            const SortResources& resources, bool merge_only, const SpeedOf& speed_of = measured);

  struct FileSystem {
    std::string folder;  // in which it was measured
    DiskSpeed speed;
  };
  // The file systems of the sort.
  std::vector<FileSystem> file_systems() const;

  // For a sort of these files that ended with this report.
  double seconds(const SortReport& report) const;

 private:
  struct Traffic {
    std::uint64_t read = 0;
    std::uint64_t written = 0;
  };
  using Phase = std::map<dev_t, Traffic>;

  static DiskSpeed measured(const std::string& folder);
  double seconds(const Phase& phase) const;

  std::map<dev_t, std::uint64_t> input_bytes_;
  std::map<dev_t, double> run_folders_;  // the sum of their shares
  std::optional<dev_t> output_;
  std::map<dev_t, FileSystem> file_systems_;
  bool merge_only_;
};

}  // namespace vortex::cli
