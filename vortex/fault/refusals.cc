#include "vortex/fault/refusals.h"

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

#include "vortex/engine/fault_engine.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/fault/region_table.h"
#include "vortex/os/descriptor.h"
#include "vortex/thread/futex.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// How many threads with such numbers are inside guarded scopes.
std::array<std::atomic<int>, 256> guarded_threads{};

std::atomic<int>& guarded_like(std::int32_t thread) noexcept {
  return guarded_threads[static_cast<std::size_t>(thread) % guarded_threads.size()];
}

struct KeptFailure {
  std::int32_t thread = 0;  // 0: free
  const Region* region = nullptr;
  Failure failure;
};

FutexMutex mutex;
std::array<KeptFailure, 256> of_instructions;
std::atomic<int> kept_count{0};        // in both
std::array<KeptFailure, 16> of_calls;  // the newest, in a ring
std::size_t next_call = 0;

void forget(KeptFailure& kept) noexcept {
  kept.thread = 0;
  kept_count.fetch_sub(1, std::memory_order_relaxed);
}

void forget_all_of(std::int32_t thread) noexcept {
  std::lock_guard lock(mutex);
  const auto forget_those = [thread](auto& all) {
    for (KeptFailure& place : all) {
      if (place.thread == thread) forget(place);
    }
  };
  forget_those(of_instructions);
  forget_those(of_calls);
}

// The kernel's file on a thread says "running", or the number of a system call, -1 for a thread
// that sleeps for another reason: a fault of its own.
bool in_system_call(std::int32_t thread) noexcept {
  LineBuffer<64> path;
  path.text("/proc/self/task/").number(static_cast<std::uint64_t>(thread)).text("/syscall");
  const KeptErrno kept;
  const os::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char first = '-';
  if (!file || read(file.get(), &first, 1) != 1) return false;
  return first >= '0' && first <= '9';
}

}  // namespace

void enter_guarded() noexcept {
  guarded_like(current_thread_id()).fetch_add(1, std::memory_order_relaxed);
  // What nobody has asked for: of a touch that found what another thread's failure was filled with,
  // or of a call before a jump.
  if (kept_count.load(std::memory_order_relaxed) != 0) forget_all_of(current_thread_id());
}

void leave_guarded() noexcept {
  guarded_like(current_thread_id()).fetch_sub(1, std::memory_order_relaxed);
}

void keep_refusal(std::int32_t thread, const Region& region, const Failure& failure) noexcept {
  const bool by_call = in_system_call(thread);
  if (by_call && guarded_like(thread).load(std::memory_order_relaxed) == 0) {
    LineBuffer<1024> line;
    line.text(failure.line().view()).text("; the system call that needed it fails with EFAULT");
    write_line(line.view());
    return;
  }
  std::lock_guard lock(mutex);
  if (by_call) {
    KeptFailure& place = of_calls[next_call++ % of_calls.size()];
    if (place.thread == 0) kept_count.fetch_add(1, std::memory_order_relaxed);
    place = {thread, nullptr, failure};
    return;
  }
  for (KeptFailure& place : of_instructions) {
    if (place.thread != 0) continue;
    place = {thread, &region, failure};
    kept_count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // Without room the thread will look at the region itself.
}

bool take_refusal(Failure* failure) noexcept {
  bool found = false;
  std::lock_guard lock(mutex);
  for (KeptFailure& place : of_instructions) {
    if (place.thread != current_thread_id()) continue;
    *failure = place.failure;
    forget(place);
    found = true;
  }
  return found;
}

void await_refusals_taken(const Region& region) noexcept {
  constexpr int kMaxLooks = 2000;
  for (int look = 0;; ++look) {
    bool left = false;
    {
      std::lock_guard lock(mutex);
      for (KeptFailure& place : of_instructions) {
        if (place.thread == 0 || place.region != &region) continue;
        left = true;
        if (look == kMaxLooks) forget(place);
      }
    }
    if (!left || look == kMaxLooks) return;
    constexpr timespec kNap{0, 100'000};
    nanosleep(&kNap, nullptr);
  }
}

Failure failure_of_call() noexcept {
  // Another thread's refusal may have ended this one's call before its own is kept.
  while (being_served(current_thread_id())) sched_yield();
  if (kept_count.load(std::memory_order_relaxed) == 0) return {};
  // For the same reason the call may have been over when it was looked at.
  Failure failure;
  if (take_refusal(&failure)) return failure;
  std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < of_calls.size(); ++i) {
    KeptFailure& oldest = of_calls[(next_call + i) % of_calls.size()];
    if (oldest.thread != current_thread_id()) continue;
    forget(oldest);
    return oldest.failure;
  }
  return {};
}

}}  // namespace vortex::v0
