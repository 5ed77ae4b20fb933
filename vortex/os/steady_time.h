// Time for statistics, readable inside a fault.
#pragma once

#include <time.h>

#include <cstdint>

namespace vortex::inline v0 {

inline std::uint64_t steady_now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace vortex::inline v0
