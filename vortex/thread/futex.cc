#include "vortex/thread/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "vortex/thread/race_detector.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// About two microseconds on current processors: less than a sleep and wake-up costs.
constexpr int kSpins = 64;
// An event comes from a thread that is at work on something longer. Some ten microseconds are what
// a sleep and the wake-up by the other side cost together.
constexpr int kEventSpins = 400;

// Tells the processor that this is a loop of waiting, which leaves more of a core to its other
// thread and makes the end of the loop cheaper.
void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The futex calls set errno on EAGAIN and EINTR, which are no errors here.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                const timespec* limit = nullptr) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, limit, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word, int waiters) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, waiters, nullptr, nullptr, 0);
}

}  // namespace

bool FutexMutex::try_lock() noexcept {
  std::uint32_t expected = kFree;
  if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) return false;
  owner_.store(current_thread_id(), std::memory_order_relaxed);
  note_acquired(&state_);
  return true;
}

void FutexMutex::lock() noexcept {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (try_lock()) return;
    pause_briefly();
  }
  const KeptErrno kept;
  os::before_waiting();
  while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
    futex_wait(state_, kContended);
  }
  owner_.store(current_thread_id(), std::memory_order_relaxed);
  note_acquired(&state_);
}

void FutexMutex::unlock() noexcept {
  owner_.store(0, std::memory_order_relaxed);
  note_released(&state_);
  if (state_.exchange(kFree, std::memory_order_release) == kContended) {
    const KeptErrno kept;
    futex_wake(state_, 1);
  }
}

bool FutexSemaphore::try_acquire() noexcept {
  std::uint32_t count = count_.load(std::memory_order_relaxed);
  while (count != 0 && (count & kClosed) == 0) {
    if (count_.compare_exchange_weak(count, count - 1, std::memory_order_acquire)) {
      note_acquired(&count_);
      return true;
    }
  }
  return false;
}

bool FutexSemaphore::acquire() noexcept {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (try_acquire()) return true;
    if (closed()) return false;
    pause_briefly();
  }
  const KeptErrno kept;
  os::before_waiting();
  // sleepers_ is raised before the count is looked at again, and release() looks at sleepers_ after
  // it raised the count: one of the two sees the other.
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool taken = false;
  while (!(taken = try_acquire()) && !closed()) {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    futex_wait(count_, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return taken;
}

void FutexSemaphore::release(std::uint32_t count) noexcept {
  note_released(&count_);
  count_.fetch_add(count, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    const KeptErrno kept;
    futex_wake(count_, count > INT_MAX ? INT_MAX : static_cast<int>(count));
  }
}

void FutexSemaphore::close() noexcept {
  note_released(&count_);
  count_.fetch_or(kClosed, std::memory_order_acq_rel);
  const KeptErrno kept;
  futex_wake(count_, INT_MAX);
}

void FutexEvent::await(std::uint32_t ticket) noexcept {
  for (int spin = 0; spin < kEventSpins; ++spin) {
    if (changes_.load(std::memory_order_acquire) != ticket) return note_acquired(&changes_);
    pause_briefly();
  }
  const KeptErrno kept;
  os::before_waiting();
  // As in a semaphore: either this thread or notify() sees the other.
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (changes_.load(std::memory_order_seq_cst) == ticket) {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    futex_wait(changes_, ticket);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  note_acquired(&changes_);
}

void FutexEvent::await_for(std::uint32_t ticket, int milliseconds) noexcept {
  const KeptErrno kept;
  const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (changes_.load(std::memory_order_seq_cst) == ticket) futex_wait(changes_, ticket, &limit);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void FutexEvent::notify() noexcept {
  note_released(&changes_);
  changes_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  const KeptErrno kept;
  futex_wake(changes_, INT_MAX);
}

}}  // namespace vortex::v0
