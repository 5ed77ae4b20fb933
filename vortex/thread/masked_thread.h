// Threads of ours inside somebody's program.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Signals that a masked thread takes.
enum class ThreadSignals {
  kNone,
  // The signals that its own instructions raise (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP): for a
  // thread that touches streams, or runs the program's code, such as a comparator that divides by
  // zero. The kernel ends a process that has such a signal blocked, without its handler.
  kOwnFaults,
};

// A thread in which no handler of the program runs for any other signal. One with kOwnFaults has
// the stack that the program's threads have; the others run our code alone, and theirs is small.
class VORTEX_EXPORT MaskedThread {
 public:
  static constexpr std::size_t kStackBytes = std::size_t{512} << 10;

  MaskedThread() = default;
  // Waits for its end.
  ~MaskedThread() { join(); }
  MaskedThread(const MaskedThread&) = delete;
  MaskedThread& operator=(const MaskedThread&) = delete;

  // Runs `body`, which must not throw, in a thread. Not while one runs. Returns 0 or an errno
  // value.
  int start(std::function<void()> body, ThreadSignals signals = ThreadSignals::kNone);

  // Waits for the end of the thread, if there is one. A forked child, which does not have it, does
  // not wait.
  void join() noexcept;

  bool started() const noexcept { return owner_ != 0; }
  // The handle of the thread, which must have been started.
  pthread_t handle() const noexcept { return thread_; }

 private:
  pthread_t thread_{};
  pid_t owner_ = 0;  // the process that has it; 0: none
};

}}  // namespace vortex::v0
