// Which allocation of a process fails, as a test says.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace vortex::test {

// Of all threads of the process.
struct HeapFailure {
  std::atomic<bool> armed = false;    // first: Python's commands write it
  std::atomic<std::uint64_t> at = 0;  // from 1 on; 0: none
  std::atomic<bool> lasting = false;
  std::atomic<std::uint64_t> seen = 0, failed = 0;

  void arm(std::uint64_t allocation, bool and_later) noexcept {
    seen = failed = 0;
    at = allocation;
    lasting = and_later;
    armed = true;
  }
  bool refuses() noexcept {
    if (!armed) return false;
    const std::uint64_t count = ++seen;
    if (at == 0 || count < at || (count > at && !lasting)) return false;
    ++failed;
    errno = ENOMEM;
    return true;
  }
};

}  // namespace vortex::test
