// What a trace tells of a sort with one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vortex::bench {

// What a thread did under one name, without its waits.
struct TracedWork {
  double seconds = 0;  // without its faults, and without freeing
  double fault_seconds = 0;
  std::uint64_t faults = 0;
};

// What one disk read, or wrote.
struct TracedDisk {
  double seconds = 0;  // in which it had something to do
  double bytes = 0;
};

struct TracedPhase {
  std::map<std::string, TracedWork, std::less<>> work;
  std::vector<TracedDisk> reads;
  std::vector<TracedDisk> writes;
  double seconds_alone = 0;  // of which no span tells

  TracedWork of(std::string_view name) const;
};

// The phases of a sort with one thread: forming runs, and merging them. Throws std::runtime_error
// where the trace is not whole.
std::pair<TracedPhase, TracedPhase> traced_phases(const std::string& path, double forming_seconds,
                                                  double merging_seconds);

}  // namespace vortex::bench
