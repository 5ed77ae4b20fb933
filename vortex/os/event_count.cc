#include "vortex/os/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace vortex::inline v0 {

void EventCount::advance() noexcept {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  const int saved = errno;
  syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  errno = saved;
}

void EventCount::wait(std::uint32_t seen) noexcept {
  const int saved = errno;
  // A sleeper that advance() does not see yet finds the number changed.
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (now() == seen) syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  errno = saved;
}

}  // namespace vortex::inline v0
