// Counts the requests that read a file, or those that write one.
#pragma once

#include <atomic>
#include <cstdint>

#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace vortex { inline namespace v0 {

// The counts of FileSourceStatistics or FileSinkStatistics. Counted by any thread, read by any.
class TransferCounters {
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

  FileSourceStatistics read_statistics() const noexcept {
    return {.requests = get(requests_),
            .cached_requests = get(cached_requests_),
            .bytes = get(bytes_),
            .waits = get(waits_),
            .waited_ns = get(waited_ns_)};
  }
  FileSinkStatistics write_statistics() const noexcept {
    return {.requests = get(requests_),
            .bytes = get(bytes_),
            .waits = get(waits_),
            .waited_ns = get(waited_ns_)};
  }

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void add(Counter& counter, std::uint64_t by) noexcept {
    counter.fetch_add(by, std::memory_order_relaxed);
  }
  static std::uint64_t get(const Counter& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }

  Counter requests_{0};
  Counter cached_requests_{0};
  Counter bytes_{0};
  Counter waits_{0};
  Counter waited_ns_{0};
};

}}  // namespace vortex::v0
