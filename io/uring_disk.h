// A disk served by io_uring.
#pragma once

#include <liburing.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <string>

#include "io/disk.h"
#include "vortex/futex.h"

namespace vortex {

// Who looks for results.
enum class Completions : std::uint8_t {
  kByWaiters,  // the threads that wait, submit and collect: no thread of ours, least processor
               // time. While nobody calls the disk, requests beyond `depth` are not issued
  kByThread,   // a thread of the disk: for programs that compute for long between calls
};

struct UringDiskOptions : DiskOptions {
  Completions completions = Completions::kByWaiters;
};

// Serves requests with offsets only; ThreadDisk serves descriptors that cannot seek.
class UringDisk final : public Disk {
 public:
  static constexpr unsigned kDefaultDepth = 32;
  static constexpr unsigned kMostDepth = 4096;

  // Probes the ring with a real request. Throws Error when the system refuses io_uring, saying
  // which switch is to blame as far as it can be told.
  explicit UringDisk(UringDiskOptions options = {});
  // Waits for the requests under way.
  ~UringDisk() override;

  void register_memory(std::byte* begin, std::size_t bytes, std::size_t block_bytes) override;
  void unregister_memory(std::byte* begin) noexcept override;

 private:
  // The kernel orders a submission before its result, which the language does not know: what was
  // read of a request to submit it comes before what its result writes, on whatever thread.
  std::atomic<std::uint64_t> submitted_{0};

  // A range known to the kernel, addressed by where it was when it was registered.
  struct RegisteredRange {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    std::byte* registration = nullptr;  // `begin` of the register_memory() call it belongs to
    unsigned users = 0;
  };
  static constexpr unsigned kMostRanges = 256;

  const char* backend() const noexcept override { return "io_uring"; }
  std::string registration() const override;
  void start(Request& request) noexcept override;
  void flush() noexcept override;
  void gather() noexcept override;
  void await_progress(std::uint32_t seen) noexcept override;
  void wake_waiters() noexcept override;

  void probe();
  io_uring_sqe* next_entry() noexcept;
  void submit_entries() noexcept;
  int update_range(unsigned index, std::byte* begin, std::size_t bytes) noexcept;
  int registered_index(const Attempt& attempt) const noexcept;
  void settle_results() noexcept;
  void wait_in_kernel(std::uint32_t seen) noexcept;
  static void* run(void* disk) noexcept;

  io_uring ring_{};
  mutable FutexMutex submit_mutex_;  // the submission side of the ring, and the registrations
  unsigned unsubmitted_ = 0;
  FutexMutex
      results_mutex_;  // the completion side; held by the one thread that waits in the kernel
  std::atomic<bool> someone_waits_{false};

  bool ranges_possible_ = false;
  std::array<RegisteredRange, kMostRanges> ranges_;  // changed and searched under submit_mutex_
  unsigned range_count_ = 0;
  std::string registration_ = "none asked for";

  Completions completions_;
  pthread_t thread_{};
  std::atomic<bool> stopping_{false};
};

}  // namespace vortex
