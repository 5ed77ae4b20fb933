// What a benchmark of sorts larger than memory is told.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "bench/support/own_options.h"
#include "vortex/sort_resources.h"

namespace vortex::bench {

struct SortSettings {
  std::string folder = ".";  // of the input, the runs and the output: it decides the disk
  std::uint64_t input_bytes = std::uint64_t{1} << 30;
  std::uint64_t memory_bytes = std::uint64_t{128} << 20;

  // --folder=DIR, --mib=N of input, --memory-mib=N. They refer to this object.
  OwnOptions options() {
    return {{"--folder=", text(folder)},
            {"--mib=", number(input_bytes, kMiB)},
            {"--memory-mib=", number(memory_bytes, kMiB)}};
  }
  std::uint64_t memory_of(bool fits) const { return fits ? 4 * input_bytes : memory_bytes; }
};

// The time against the longest of three: reading, writing, and what the threads work.
inline double of_longest(const SortReport& report) {
  double threads = 0, longest = 0;
  for (const SortOverlap& phase : report.overlap) {
    threads += phase.threads;
    longest = std::max({longest, phase.disks, threads});
  }
  return report.seconds / std::max(longest, 1e-9);
}

}  // namespace vortex::bench
