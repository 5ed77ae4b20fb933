// A disk served by threads that make plain system calls: works everywhere.
#pragma once

#include <atomic>
#include <vector>

#include "io/disk/disk.h"
#include "vortex/os/futex.h"
#include "vortex/os/masked_thread.h"

namespace vortex::inline v0 {

// `depth` threads (one by default) with pread and pwrite. With one thread it also serves
// descriptors that cannot seek (Request::kSequential): pipes, sockets, terminals. It waits for
// those to become ready, and cancel_sequential() ends such a wait.
class ThreadDisk final : public Disk {
 public:
  // Throws Error(EAGAIN) when the system refuses a thread.
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
  std::int64_t transfer_when_ready(const Attempt& attempt) noexcept;
  void stop() noexcept;

  FutexMutex mutex_;
  RequestQueue started_;
  FutexSemaphore started_count_;
  std::atomic<bool> canceled_{false};
  int cancel_event_ = -1;
  std::vector<MaskedThread> threads_;
};

}  // namespace vortex::inline v0
