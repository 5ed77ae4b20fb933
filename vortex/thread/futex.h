// Waiting that works inside a fault handler: a mutex, a semaphore and an event on futexes.
//
// They spin briefly before they sleep: a block usually arrives within microseconds, and a futex
// sleep costs about as much as the fault itself. None allocates, throws, changes errno or
// touches lazily made state.
#pragma once

#include <atomic>
#include <cstdint>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A lock held for a moment, or for as long as its owner waits for a block. Not recursive;
// held_by() lets a caller that would wait for itself report an error instead.
class VORTEX_EXPORT FutexMutex {
 public:
  void lock() noexcept;
  bool try_lock() noexcept;
  void unlock() noexcept;
  // `thread` is a kernel id, see this_thread.h.
  bool held_by(std::int32_t thread) const noexcept {
    return owner_.load(std::memory_order_relaxed) == thread;
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kContended = 2;
  std::atomic<std::uint32_t> state_{kFree};
  std::atomic<std::int32_t> owner_{0};
};

// A counting semaphore that can be closed: close() lets every present and future waiter go with
// `false`, which is how a stream that is cancelled wakes those who wait for it.
class VORTEX_EXPORT FutexSemaphore {
 public:
  explicit FutexSemaphore(std::uint32_t count = 0) noexcept : count_(count) {}
  // Takes one; sleeps while there is none. False: closed (units that are left are not handed out).
  bool acquire() noexcept;
  bool try_acquire() noexcept;
  void release(std::uint32_t count = 1) noexcept;
  void close() noexcept;
  bool closed() const noexcept { return (count_.load(std::memory_order_acquire) & kClosed) != 0; }

  // How often acquire() had to sleep.
  std::uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }

 private:
  // In one word with the count, on which waiters sleep: a closed semaphore's word is never 0.
  static constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;
  std::atomic<std::uint32_t> count_;
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint64_t> sleeps_{0};
};

// A condition variable that works inside a fault handler. The waiter looks at the condition under
// the lock that guards it and draws a ticket there; whoever changes the condition calls notify()
// after it let go of the lock:
//
//   for (;;) {
//     { lock; if (condition) return; ticket = event.ticket(); }
//     event.await(ticket);
//   }
//
class VORTEX_EXPORT FutexEvent {
 public:
  std::uint32_t ticket() const noexcept { return changes_.load(std::memory_order_acquire); }

  // Returns after a notify() that came later than the ticket.
  void await(std::uint32_t ticket) noexcept;

  // The same, but returns after `milliseconds` at the latest. Does not spin.
  void await_for(std::uint32_t ticket, int milliseconds) noexcept;

  // Lets every waiter look at its condition again.
  void notify() noexcept;

  // How often await() had to sleep.
  std::uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> changes_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint64_t> sleeps_{0};
};

}}  // namespace vortex::v0
