// Threads beside a disk that copy to and from files in memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "io/disk/request.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/masked_thread.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Copies the memory of a write into the file, through a mapping of a part at a time. Returns the
// bytes that were written: all, or fewer where the file has no room for more; 0 where it is not so
// long already, or has a name, by which others could make it shorter.
VORTEX_EXPORT std::size_t write_mapped(const Attempt& attempt) noexcept;

// What a request moves to or from a file in memory is copied by the thread that asks the kernel for
// it, so that one thread is as fast as one core copies. Writes to one file wait for each other
// in the kernel: a thread that finds another one writing copies through a mapping instead, which
// takes twice the processor time of a write, and waits for nobody.
class Copiers {
 public:
  // Called by any of the threads with the result of the attempt, as of a system call with -errno
  // for errors.
  using Arrived = std::function<void(Request& request, std::int64_t result)>;

  // Starts `threads` threads, or as many as the system grants. Throws std::bad_alloc.
  Copiers(unsigned threads, Arrived arrived);
  // Every request has arrived.
  ~Copiers();

  bool any() const noexcept { return threads_.front().started(); }
  // May be called inside a fault and by any thread; allocates nothing.
  void start(Request& request) noexcept;

 private:
  void serve() noexcept;
  std::int64_t copy(const Attempt& attempt) noexcept;

  const Arrived arrived_;
  FutexMutex mutex_;
  RequestQueue started_;
  FutexSemaphore started_count_;
  std::atomic<unsigned> writing_{0};
  std::vector<MaskedThread> threads_;  // destroyed first
};

}}  // namespace vortex::v0
