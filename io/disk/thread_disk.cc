#include "io/disk/thread_disk.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "io/disk/request.h"
#include "vortex/error.h"
#include "vortex/os/write_signals.h"

namespace vortex { inline namespace v0 {

ThreadDisk::ThreadDisk(DiskOptions options) : Disk(std::move(options), 1) {
  if (!cancel_event_) throw Error(errno, "disk '" + name() + "': eventfd");
  threads_ = std::vector<MaskedThread>(depth());
  for (MaskedThread& thread : threads_) {
    if (thread.start([this] { serve(); }) != 0) break;
    has_threads_ = true;
  }
}

ThreadDisk::~ThreadDisk() {
  if (inherited()) return;
  drain();
  end_copying();
  started_count_.close();
  for (MaskedThread& thread : threads_) thread.join();
}

void ThreadDisk::start(Request& request) noexcept {
  {
    std::lock_guard lock(mutex_);
    started_.push(request);
    if (is_left_to_waiters(request)) return;
    if (!has_threads_ && std::exchange(served_here_, true)) return;
  }
  if (has_threads_) {
    started_count_.release();
  } else {
    serve_here();
  }
}

bool ThreadDisk::is_left_to_waiters(const Request& request) const noexcept {
  return !has_threads_ && request.complete == nullptr && request.operation == Operation::kRead &&
         request.offset == Request::kSequential;
}

// Others that wait look again when this one has read what it waits for, or what is in front of it.
void ThreadDisk::await_progress(std::uint32_t seen) noexcept {
  Request* request = nullptr;
  if (!has_threads_) {
    std::lock_guard lock(mutex_);
    if (!served_here_) request = started_.pop();
    served_here_ |= request != nullptr;
  }
  if (request == nullptr) return Disk::await_progress(seen);
  carry_out(*request);
  {
    std::lock_guard lock(mutex_);
    served_here_ = false;
  }
  interrupt();
}

// What ends a request may start others, which are served here as well.
void ThreadDisk::serve_here() noexcept {
  const os::WithoutWriteSignals without;
  while (Request* const request = next()) carry_out(*request);
}

void ThreadDisk::serve() noexcept {
  while (started_count_.acquire()) carry_out(*next());
}

Request* ThreadDisk::next() noexcept {
  std::lock_guard lock(mutex_);
  Request* const request = started_.pop();
  if (request == nullptr) served_here_ = false;
  return request;
}

void ThreadDisk::carry_out(Request& request) noexcept {
  const Attempt& attempt = request.attempt();
  arrived(request, attempt.offset == Request::kSequential ? transfer_when_ready(attempt)
                                                          : transfer(attempt));
}

std::int64_t ThreadDisk::transfer_when_ready(const Attempt& attempt) noexcept {
  const short wanted = attempt.operation == Operation::kRead ? POLLIN : POLLOUT;
  std::array<pollfd, 2> both{{{attempt.file, wanted, 0}, {cancel_event_.get(), POLLIN, 0}}};
  // Without threads of the disk's, signals of the program's interrupt it.
  while (poll(both.data(), both.size(), -1) < 0) {
    if (errno != EINTR) return -errno;
  }
  if (canceled_.load(std::memory_order_acquire)) return -ECANCELED;
  return transfer_at_once(attempt);
}

void ThreadDisk::cancel_sequential() noexcept {
  canceled_.store(true, std::memory_order_release);
  cancel_event_.signal();
}

}}  // namespace vortex::v0
