// One disk: a queue of requests, and the one place that decides what a result means.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "io/disk/copiers.h"
#include "io/disk/request.h"
#include "vortex/disk.h"
#include "vortex/thread/activity.h"
#include "vortex/thread/futex.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Requests to one disk. At most `depth` are with the backend; the others wait here, and writes go
// before reads. A backend only carries out attempts; what their results mean is decided here for
// all backends: a short transfer goes on where it stopped, EINTR is tried again at once and EAGAIN
// after pauses of up to 41 ms (both a bounded number of times), the first other error ends the
// request, and no result is dropped.
//
// submit(), wait() and send() may be called inside a fault and by any thread; they allocate
// nothing. Completions are found by threads of the backend.
//
// Backends: UringDisk and ThreadDisk, between which open_disk() chooses; for tests and benchmarks
// SimulatedDisk and PacedDisk, and FaultyDisk around another one (study/).
class VORTEX_EXPORT Disk {
 public:
  // Requests must have ended: backends wait for them when they are destroyed.
  virtual ~Disk() = default;

  const std::string& name() const noexcept { return name_; }
  unsigned depth() const noexcept { return depth_; }

  // Takes the request. With `more_to_come` the backend may hold it back until the next submit(),
  // wait() or send(): one call of the system for several.
  void submit(Request& request, bool more_to_come = false) noexcept;

  // Waits until the request, which has no `complete`, has ended. With `stop`, returns false when
  // that becomes true first; see interrupt(). The request is then still under way.
  bool wait(Request& request, const std::atomic<bool>* stop = nullptr) noexcept;

  // Sends what submit() may have held back.
  void send() noexcept { flush(); }

  // Makes every wait() look at its `stop` again.
  virtual void interrupt() noexcept { progress_.notify(); }

  // Waits until every request submitted so far has ended.
  void drain() noexcept;

  virtual DiskStatistics statistics() const;

  // Tells the kernel about memory that many requests will use, so that it need not look it up and
  // pin it for each. Requests refer to it by the same addresses ever after: blocks at home. The
  // kernel registers the memory that lies at those addresses now: were a block placed elsewhere,
  // its home would be given new memory, and requests would move that instead of the block. So all
  // blocks must rest, and go on resting until this returns; the homes of a pool of aliases show the
  // same memory at any time. A refusal by the kernel is no error: it costs speed, and the
  // statistics say why. Not inside a fault. The range must be unregistered before the memory goes
  // away, with no requests under way.
  virtual void register_memory(std::byte* /*begin*/, std::size_t /*bytes*/,
                               std::size_t /*block_bytes*/) {}
  virtual void unregister_memory(std::byte* /*begin*/) noexcept {}

  // Time, for the statistics.
  virtual std::uint64_t now_ns() const noexcept { return steady_now_ns(); }
  // Changes when requests end and when somebody interrupts. await_progress() waits until it is no
  // longer `seen`, and may return earlier.
  std::uint32_t progress() const noexcept { return progress_.ticket(); }
  virtual void await_progress(std::uint32_t seen) noexcept { progress_.await(seen); }

  // Tells `log` when the disk works, and of each request if it traces. Before the first request;
  // allocates. The log outlives the disk.
  void report_to(ActivityLog& log);

  // Requests that the kernel copies (Request::copies) are carried out by up to `threads` threads
  // beside the backend's. Before the first request. Throws std::bad_alloc. Of backends that end it
  // when they are destroyed.
  void copy_with(unsigned threads);
  // As many threads copy for a sort with `threads`: few sorters are served by one.
  static unsigned copiers_for(unsigned threads) noexcept {
    return threads < 4 ? 0 : std::min(threads, 16U);
  }

  // Why open_disk() did not make a better disk; for the statistics.
  void set_fallback(std::string reason) { fallback_ = std::move(reason); }

 protected:
  // `depth` is used where the options leave it open.
  Disk(DiskOptions options, unsigned depth);

  virtual const char* backend() const noexcept = 0;
  virtual std::string registration() const { return "not needed by this backend"; }

  // Carries out request.attempt(), or begins to; the result, as of a system call with -errno for
  // errors, goes to arrived(), from this call or later, on any thread.
  virtual void start(Request& request) noexcept = 0;
  // Everything started is under way when it returns, or a thread of the backend sees to it.
  virtual void flush() noexcept {}
  // Lets time pass before an attempt is repeated for which the kernel was short of something.
  virtual void pause(std::uint64_t nanoseconds) noexcept;
  // How long, the first time (1) and later: 20 us, doubled each time up to 41 ms.
  static std::uint64_t retry_pause_ns(unsigned refusals) noexcept;

  void arrived(Request& request, std::int64_t result) noexcept;
  // When every request has ended, before the backend goes.
  void end_copying() noexcept { copiers_.reset(); }

  bool inherited() const noexcept;  // by a forked child, to whom the requests do not belong
  void count(std::uint64_t DiskStatistics::*counter, std::uint64_t by = 1) noexcept;

 private:
  Request* next_to_issue() noexcept;
  bool idle() const noexcept { return in_flight_ == 0 && reads_.empty() && writes_.empty(); }
  void log_end(const Request& request) noexcept;
  void pump() noexcept;
  void issue(Request& request) noexcept;
  // Ends the request (true), or has it try again (false).
  bool has_ended(Request& request, std::int64_t result) noexcept;
  void end(Request& request) noexcept;

  std::string name_;
  unsigned depth_;
  std::string fallback_;
  int owner_pid_;

  mutable FutexMutex mutex_;  // the queues and the counts
  RequestQueue reads_;        // waiting
  RequestQueue writes_;
  unsigned in_flight_ = 0;  // issued and not ended
  DiskStatistics counts_;

  ActivityLog* log_ = nullptr;
  std::uint32_t track_ = 0;

  FutexEvent progress_;  // requests have ended
  std::unique_ptr<Copiers> copiers_;
};

// How many threads a disk that open_disk() makes has, where the options leave its depth open. Opens
// one to find out, with kBest.
VORTEX_EXPORT unsigned threads_of_disk(DiskBackend backend);

}}  // namespace vortex::v0
