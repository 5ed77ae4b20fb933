#include "vortex/stream.h"

#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/fault_dispatcher.h"

namespace vortex::inline v0 {

Stream::ServiceLock::ServiceLock(Stream& stream)
    : stream_(stream), frame_{&stream.region_, thread_state().serving, nullptr} {
  if (stream.inherited()) {
    throw Error(EFAULT, "stream '" + stream.name() +
                            "': used in a forked child, which does not inherit streams");
  }
  if (stream.mutex_.held_by_me()) {
    throw Error(EDEADLK, "stream '" + stream.name() + "': used by a callback inside its own fault");
  }
  stream.mutex_.lock();
  stream.region_.pin();
  thread_state().serving = &frame_;
}

Stream::ServiceLock::~ServiceLock() {
  thread_state().serving = frame_.outer;
  // In this order: whoever closes the stream waits for the pin alone, and then destroys the lock.
  stream_.mutex_.unlock();
  stream_.region_.unpin();
}

Stream::Stream(std::string name, Reservation reservation)
    : name_(std::move(name)),
      reservation_(std::move(reservation)),
      region_(reservation_.begin(), reservation_.guarded_bytes(), *this) {}

Stream::~Stream() {
  if (open_) fatal("vortex: a stream's destructor did not call close()");
}

void Stream::open() {
  FaultDispatcher::instance().add(region_);
  open_ = true;
}

void Stream::close() noexcept {
  if (!open_) return;
  was_inherited_ = region_.inherited();
  if (!was_inherited_) {
    stopping_.store(true, std::memory_order_release);
    wake();
  }
  FaultDispatcher::instance().remove(region_);
  open_ = false;
}

Failure Stream::failure() const noexcept { return failed() ? failure_ : Failure{}; }

void Stream::cancel(int error, std::string_view cause) noexcept {
  record(error, cause, 0, {});
  stopping_.store(true, std::memory_order_release);
  wake();
}

Stream::Statistics Stream::statistics() const noexcept {
  return {faults_.load(std::memory_order_relaxed), spurious_.load(std::memory_order_relaxed)};
}

bool Stream::fail(int error, std::string_view cause, std::uint64_t offset) noexcept {
  record(error, cause, offset, window());
  return false;
}

void Stream::record(int error, std::string_view cause, std::uint64_t offset,
                    Window window) noexcept {
  std::lock_guard lock(failure_mutex_);
  if (failed()) return;
  failure_.error = error != 0 ? error : EIO;
  failure_.stream.text(name_);
  failure_.cause.text(cause);
  failure_.offset = offset;
  failure_.block = block_bytes() != 0 ? offset / block_bytes() : 0;
  failure_.window_begin = window.begin;
  failure_.window_end = window.end;
  failed_.store(true, std::memory_order_release);
}

bool Stream::serve_locked(Access access, std::uint64_t offset) noexcept {
  if (failed()) return false;
  if (stopping()) return fail(ECANCELED, "destroyed while a thread still used it", offset);
  if (offset >= reservation_.bytes()) return handle_overrun(offset);
  return handle_fault(access, offset);
}

const Failure* Stream::serve(const Fault& fault) noexcept {
  const auto offset = static_cast<std::uint64_t>(fault.address - base());
  if (mutex_.held_by_me()) {
    fail(EDEADLK, "a callback inside a fault of this stream touched the same stream", offset);
    return &failure_;
  }
  std::lock_guard lock(mutex_);
  const std::uint64_t spurious_before = spurious_.load(std::memory_order_relaxed);
  if (!serve_locked(fault.access, offset)) return &failure_;
  if (spurious_.load(std::memory_order_relaxed) == spurious_before) {
    repeats_ = 0;
  } else if (helpless(offset)) {
    fail(EFAULT, "a placed block cannot be touched: did something change its protection?", offset);
    return &failure_;
  }
  faults_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

bool Stream::handle_overrun(std::uint64_t offset) noexcept {
  return fail(ENOSPC, "the reservation ends here: raise reserve_bytes", offset);
}

bool Stream::helpless(std::uint64_t offset) noexcept {
  constexpr int kEnoughRepeats = 1000;
  const std::int32_t thread = current_thread_id();
  if (offset != repeated_offset_ || thread != repeated_thread_) repeats_ = 0;
  repeated_offset_ = offset;
  repeated_thread_ = thread;
  return ++repeats_ > kEnoughRepeats;
}

void Stream::abandon(const Failure& inner) noexcept {
  CauseText cause;
  cause.text("a callback inside its fault failed on stream '").text(inner.stream.view());
  cause.text("': ").text(inner.cause.view());
  fail(inner.error, cause.view(), 0);
  mutex_.unlock();
}

}  // namespace vortex::inline v0
