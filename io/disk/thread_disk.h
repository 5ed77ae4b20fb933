// A disk served by threads that make plain system calls: works everywhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/disk/disk.h"
#include "vortex/os/descriptor.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"

namespace vortex { inline namespace v0 {

// `depth` threads (one by default) with pread and pwrite, or fewer where the system refuses them.
// Where it refuses all, whoever submits a request carries it out, and those of others meanwhile;
// what cannot seek is read by whoever waits for it, for nobody knows when more comes.
// With a depth of one it also serves descriptors that cannot seek (Request::kSequential): pipes,
// sockets, terminals. It waits for those to become ready, and cancel_sequential() ends such a wait.
class ThreadDisk final : public Disk {
 public:
  // Throws Error: EMFILE when there is no descriptor left.
  explicit ThreadDisk(DiskOptions options = {});
  // Waits for the requests under way.
  ~ThreadDisk() override;

  // Requests for descriptors that cannot seek end with ECANCELED from now on, those that wait for
  // the other side included. Any thread.
  void cancel_sequential() noexcept;

 private:
  const char* backend() const noexcept override { return "threads"; }
  void start(Request& request) noexcept override;
  void serve() noexcept;
  bool is_left_to_waiters(const Request& request) const noexcept;
  void serve_here() noexcept;
  void await_progress(std::uint32_t seen) noexcept override;
  void carry_out(Request& request) noexcept;
  std::int64_t transfer_when_ready(const Attempt& attempt) noexcept;
  Request* next() noexcept;

  FutexMutex mutex_;
  RequestQueue started_;
  FutexSemaphore started_count_;
  std::atomic<bool> canceled_{false};
  const os::Event cancel_event_;
  std::vector<MaskedThread> threads_;
  bool has_threads_ = false;
  bool served_here_ = false;  // under mutex_: a thread of the program serves a request
};

}}  // namespace vortex::v0
