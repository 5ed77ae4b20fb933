#include "vortex/os/futex_event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "vortex/os/pause.h"

namespace vortex::inline v0 {
namespace {

// Some ten microseconds: what a sleep and the wake-up by the other side cost together.
constexpr int kSpins = 400;

}  // namespace

void FutexEvent::await(std::uint32_t ticket) noexcept {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (changes_.load(std::memory_order_acquire) != ticket) return;
    pause_briefly();
  }
  const int saved_errno = errno;
  // Raised before the count of changes is looked at again, while notify() looks at it after it
  // changed the count: one of the two sees the other.
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (changes_.load(std::memory_order_seq_cst) == ticket) {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    syscall(SYS_futex, &changes_, FUTEX_WAIT_PRIVATE, ticket, nullptr, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  errno = saved_errno;
}

void FutexEvent::notify() noexcept {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  const int saved_errno = errno;
  syscall(SYS_futex, &changes_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  errno = saved_errno;
}

}  // namespace vortex::inline v0
