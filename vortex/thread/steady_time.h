// Times for statistics, readable inside a fault.
#pragma once

#include <time.h>

#include <cstdint>

namespace vortex { inline namespace v0 {

inline std::uint64_t steady_now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

inline double seconds_since(std::uint64_t begin_ns) noexcept {
  return 1e-9 * static_cast<double>(steady_now_ns() - begin_ns);
}

// The processor time that all threads of the process have taken.
inline double process_cpu_seconds() noexcept {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}}  // namespace vortex::v0
