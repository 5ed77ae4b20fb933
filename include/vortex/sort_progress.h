// How far a sort is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace vortex::inline v0 {

// What a sort is doing.
enum class SortPhase : std::uint8_t {
  kReading,  // reading the input, sorting parts of it
  kMerging,  // merging runs to longer ones
  kWriting,  // writing the output
};

// "reading", "merging", "writing".
std::string_view to_string(SortPhase phase) noexcept;

struct SortProgress {
  SortPhase phase = SortPhase::kReading;
  std::uint64_t bytes = 0;                        // dealt with in this phase
  std::optional<std::uint64_t> phase_bytes = {};  // in all; none: not known, the input is a pipe
};

using SortProgressFunction = std::function<void(const SortProgress&)>;

// How many runs and merges a sort took.
struct RunCounts {
  std::uint64_t runs = 0;   // that were formed
  unsigned merges = 0;      // the last one included
  unsigned passes = 0;      // merges of a record on its way, at most
  std::uint64_t bytes = 0;  // written to the disks in all
};

}  // namespace vortex::inline v0
