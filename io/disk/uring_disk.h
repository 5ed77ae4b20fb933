// A disk served by io_uring.
#pragma once

#include <liburing.h>

#include <array>
#include <atomic>
#include <exception>
#include <string>
#include <vector>

#include "io/disk/disk.h"
#include "vortex/os/descriptor.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"

namespace vortex { inline namespace v0 {

// Serves requests with offsets only; ThreadDisk serves descriptors that cannot seek.
//
// The ring belongs to a thread of the disk, which alone enters it. The kernel finishes a request
// inside the thread that submitted it, and to do so it interrupts whatever system call that thread
// waits in: epoll_wait and others would end with EINTR in threads of the program. For the same
// reason the thread makes the ring as well.
class UringDisk final : public Disk {
 public:
  static constexpr unsigned kDefaultDepth = 32;
  static constexpr unsigned kMaxDepth = 4096;

  // Probes the ring with a real request. Throws Error when the system refuses io_uring, saying
  // which switch is to blame as far as it can be told, or a thread. Should the kernel refuse later
  // what it granted here, requests end with its error.
  explicit UringDisk(DiskOptions options = {});
  // Waits for the requests under way.
  ~UringDisk() override;

  void register_memory(std::byte* begin, std::size_t bytes, std::size_t block_bytes) override;
  void unregister_memory(std::byte* begin) noexcept override;

 private:
  // A range known to the kernel, addressed by where it was when it was registered.
  struct RegisteredRange {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    std::byte* registration = nullptr;  // `begin` of the register_memory() call it belongs to
    unsigned users = 0;
  };
  static constexpr unsigned kMaxRanges = 256;

  const char* backend() const noexcept override { return "io_uring"; }
  std::string registration() const override;
  void start(Request& request) noexcept override;
  void flush() noexcept override;

  bool open() noexcept;
  void probe();
  int update_range(unsigned index, std::byte* begin, std::size_t bytes) noexcept;
  int registered_index(const Attempt& attempt) const noexcept;

  // For the disk's thread alone.
  void serve() noexcept;
  bool say_that_it_sleeps() noexcept;
  void prepare_started() noexcept;
  void prepare(Request& request, io_uring_sqe* entry) noexcept;
  int submit_entries(bool wait) noexcept;
  void fail_unsubmitted(int error) noexcept;
  void wait_outside_the_ring() noexcept;
  void settle_results() noexcept;

  mutable FutexMutex mutex_;  // guards what follows
  RequestQueue started_;      // not yet in the ring
  bool announced_ = true;     // the thread knows of them, or is about to
  bool ranges_possible_ = false;
  std::array<RegisteredRange, kMaxRanges> ranges_;
  unsigned range_count_ = 0;
  std::string registration_ = "none asked for";

  const os::Event new_requests_;     // for a thread that sleeps
  std::atomic<bool> sleeps_{false};  // the thread does, or is about to
  std::atomic<bool> stopping_{false};
  MaskedThread thread_;
  FutexSemaphore opened_;  // released once, when the thread has a ring or a refusal
  std::exception_ptr refusal_;

  // For the disk's thread alone.
  io_uring ring_{};
  std::vector<io_uring_sqe*> unsubmitted_;  // in order; never grows beyond its capacity
  std::size_t in_kernel_ = 0;               // entries submitted whose results are not there
  bool listens_ = false;                    // one of them waits for new_requests_
};

}}  // namespace vortex::v0
