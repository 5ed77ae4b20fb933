// The most memory that a sort of the program is given.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vortex/sort_resources.h"

namespace vortex::cli {

// What this process may take, less what it takes beside the memory it was told to sort in.
inline std::uint64_t most_memory_bytes(const MemoryLimits& limits) noexcept {
  constexpr std::uint64_t kBeside = std::uint64_t{32} << 20;
  const std::uint64_t all = limits.usable_bytes();
  return all - std::min(kBeside, all / 4);
}

}  // namespace vortex::cli
