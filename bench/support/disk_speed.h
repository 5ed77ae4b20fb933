// How fast the disk of a benchmark is, and how much of a time that explains.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include <unistd.h>

#include "vortex/disk.h"

namespace vortex::bench {

// False: the system does not permit it.
inline bool drop_page_cache() {
  sync();
  return static_cast<bool>(std::ofstream("/proc/sys/vm/drop_caches") << 3 << std::flush);
}

// Of reading, of writing, and of both at once, within a few seconds.
inline DiskSpeed speed_of_disk(const std::string& folder) {
  DiskSpeedOptions options;
  options.bytes = std::uint64_t{512} << 20;
  options.most_ns = 2'000'000'000;
  return measure_disk_speed(*open_disk(), folder, options);
}

// What a sort moves: its input and its output, and the bytes of its runs, if it made some.
struct SortTraffic {
  std::uint64_t input_bytes = 0;
  std::uint64_t run_bytes = 0;
  std::uint64_t output_bytes = 0;

  // The least time in which the disk can do that: it reads the input while runs are written, and
  // these while the output is.
  double seconds(const DiskSpeed& speed) const {
    if (run_bytes == 0) return speed.seconds(input_bytes, 0) + speed.seconds(0, output_bytes);
    return speed.seconds(input_bytes, run_bytes) + speed.seconds(run_bytes, output_bytes);
  }
};

// The speed of a disk before and behind what is timed: it may differ.
class DiskAround {
 public:
  explicit DiskAround(std::string folder)
      : folder_(std::move(folder)), before_(speed_of_disk(folder_)) {}

  // Measures again. The least time for the traffic, by both speeds.
  double seconds(const SortTraffic& traffic) const {
    return (traffic.seconds(before_) + traffic.seconds(speed_of_disk(folder_))) / 2;
  }

 private:
  const std::string folder_;
  const DiskSpeed before_;
};

}  // namespace vortex::bench
