// Waiting for a condition that another thread makes true.
#pragma once

#include <atomic>
#include <cstdint>

namespace vortex::inline v0 {

// A condition variable that works inside a fault handler. The waiter looks at the condition under
// the lock that guards it and draws a ticket there; whoever changes the condition calls notify()
// after it let go of the lock:
//
//   for (;;) {
//     { lock; if (condition) return; ticket = event.ticket(); }
//     event.await(ticket);
//   }
//
// Waiting spins briefly and then sleeps. Nothing allocates, throws or changes errno.
class FutexEvent {
 public:
  FutexEvent() = default;
  FutexEvent(const FutexEvent&) = delete;
  FutexEvent& operator=(const FutexEvent&) = delete;

  std::uint32_t ticket() const noexcept { return changes_.load(std::memory_order_acquire); }

  // Returns after a notify() that came later than the ticket.
  void await(std::uint32_t ticket) noexcept;

  // Lets every waiter look at its condition again.
  void notify() noexcept;

  // How often await() had to sleep.
  std::uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> changes_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint64_t> sleeps_{0};
};

}  // namespace vortex::inline v0
