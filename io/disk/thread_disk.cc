#include "io/disk/thread_disk.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string>
#include <utility>

#include "io/disk/transfer.h"
#include "vortex/error.h"

namespace vortex::inline v0 {

ThreadDisk::ThreadDisk(DiskOptions options) : Disk(std::move(options), 1), threads_(depth()) {
  cancel_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (cancel_event_ < 0) throw Error(errno, "disk '" + name() + "': eventfd");
  for (MaskedThread& thread : threads_) {
    if (const int error = thread.start([this] { serve(); })) {
      stop();
      throw Error(error, "disk '" + name() + "': the system refuses a thread for requests");
    }
  }
}

ThreadDisk::~ThreadDisk() {
  if (inherited()) return;
  drain();
  stop();
}

void ThreadDisk::stop() noexcept {
  started_count_.close();
  for (MaskedThread& thread : threads_) thread.join();
  close(cancel_event_);
}

void ThreadDisk::start(Request& request) noexcept {
  {
    std::lock_guard lock(mutex_);
    started_.push(request);
  }
  started_count_.release();
}

void ThreadDisk::serve() noexcept {
  while (started_count_.acquire()) {
    Request* request = nullptr;
    {
      std::lock_guard lock(mutex_);
      request = started_.pop();
    }
    const Attempt& attempt = request->attempt();
    arrived(*request, attempt.offset == Request::kSequential ? transfer_when_ready(attempt)
                                                             : transfer(attempt));
  }
}

std::int64_t ThreadDisk::transfer_when_ready(const Attempt& attempt) noexcept {
  const short wanted = attempt.operation == Operation::kRead ? POLLIN : POLLOUT;
  std::array<pollfd, 2> both{{{attempt.file, wanted, 0}, {cancel_event_, POLLIN, 0}}};
  if (poll(both.data(), both.size(), -1) < 0) return -errno;
  if (canceled_.load(std::memory_order_acquire)) return -ECANCELED;
  return transfer_at_once(attempt);
}

void ThreadDisk::cancel_sequential() noexcept {
  canceled_.store(true, std::memory_order_release);
  const int saved = errno;
  const std::uint64_t one = 1;
  // Fails only when the event is signalled already.
  if (write(cancel_event_, &one, sizeof one) < 0) errno = saved;
}

}  // namespace vortex::inline v0
