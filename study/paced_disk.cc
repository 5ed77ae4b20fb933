#include "study/paced_disk.h"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include "io/disk/request.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

void sleep_until(std::uint64_t time_ns) noexcept {
  const timespec until{static_cast<time_t>(time_ns / 1'000'000'000),
                       static_cast<long>(time_ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace

PacedDisk::PacedDisk(ServiceModel model, DiskOptions options, std::atomic<std::uint64_t>* late)
    : Disk(std::move(options), 1), service_(model), late_(late) {
  if (const int error = thread_.start([this] { serve(); })) {
    throw Error(error, "disk '" + name() + "': the system refuses a thread for requests");
  }
}

PacedDisk::~PacedDisk() {
  if (inherited()) return;
  drain();
  started_count_.close();
  thread_.join();
}

void PacedDisk::start(Request& request) noexcept {
  {
    std::lock_guard lock(mutex_);
    started_.push(request);
  }
  started_count_.release();
}

void PacedDisk::serve() noexcept {
  prctl(PR_SET_TIMERSLACK, 1);
  for (;;) {
    // A request that is there when another ends was waiting: the disk takes it up the moment it
    // becomes free, however late this thread woke up. For a request that comes later, service
    // begins now.
    const bool waiting = started_count_.try_acquire();
    if (!waiting && !started_count_.acquire()) return;
    Request* request = nullptr;
    {
      std::lock_guard lock(mutex_);
      request = started_.pop();
    }
    const Attempt& attempt = request->attempt();
    const std::uint64_t due_ns = service_.serve(attempt, waiting ? 0 : now_ns());
    const std::int64_t result =
        attempt.file >= 0 ? transfer(attempt) : static_cast<std::int64_t>(attempt.bytes);
    if (now_ns() > due_ns) {
      if (late_ != nullptr) late_->fetch_add(1, std::memory_order_relaxed);
    } else {
      sleep_until(due_ns);
    }
    arrived(*request, result);
  }
}

}}  // namespace vortex::v0
