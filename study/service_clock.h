// How long a simulated disk takes.
#pragma once

#include <cstdint>

#include "io/disk/request.h"

namespace vortex { inline namespace v0 {

// A disk that serves one request at a time: it seeks when the request does not begin where the last
// one ended, then moves bytes at a constant rate. 0 bytes a second mean infinitely fast.
struct ServiceModel {
  std::uint64_t read_bytes_per_s = 0;
  std::uint64_t write_bytes_per_s = 0;
  std::uint64_t seek_ns = 0;
};

// When the disk is free, and where its head is. Times are nanoseconds on whichever clock the caller
// uses.
class ServiceClock {
 public:
  explicit ServiceClock(ServiceModel model) noexcept : model_(model) {}

  // Serves the transfer as soon as the disk is free, but not before `now_ns`; returns when it is
  // done.
  std::uint64_t serve(const Attempt& transfer, std::uint64_t now_ns) noexcept;

  std::uint64_t free_at_ns() const noexcept { return free_at_ns_; }
  std::uint64_t busy_ns() const noexcept { return busy_ns_; }
  std::uint64_t seeks() const noexcept { return seeks_; }

 private:
  ServiceModel model_;
  std::uint64_t free_at_ns_ = 0;
  std::uint64_t busy_ns_ = 0;
  std::uint64_t seeks_ = 0;
  int head_file_ = -1;
  std::uint64_t head_offset_ = ~std::uint64_t{0};
};

}}  // namespace vortex::v0
