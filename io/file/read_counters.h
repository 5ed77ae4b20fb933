// Counts the requests that read a file.
#pragma once

#include <atomic>
#include <cstdint>

#include "vortex/file_reader.h"

namespace vortex::inline v0 {

// What FileSourceStatistics tells. Counted by any thread, read by any.
class ReadCounters {
 public:
  void count_request(std::uint64_t bytes, bool cached) noexcept {
    add(requests_, 1);
    if (cached) add(cached_requests_, 1);
    add(bytes_, bytes);
  }
  void count_wait(std::uint64_t ns) noexcept {
    add(waits_, 1);
    add(waited_ns_, ns);
  }

  FileSourceStatistics statistics() const noexcept {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    FileSourceStatistics result;
    result.requests = requests_.load(kRelaxed);
    result.cached_requests = cached_requests_.load(kRelaxed);
    result.bytes = bytes_.load(kRelaxed);
    result.waits = waits_.load(kRelaxed);
    result.waited_ns = waited_ns_.load(kRelaxed);
    return result;
  }

 private:
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
    counter.fetch_add(by, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> cached_requests_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::uint64_t> waited_ns_{0};
};

}  // namespace vortex::inline v0
