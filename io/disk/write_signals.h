// The signals that a write sends to the thread that writes.
#pragma once

#include <signal.h>
#include <time.h>

#include <cerrno>

namespace vortex::inline v0 {

// Puts off SIGPIPE and SIGXFSZ while it lives, and forgets those that came: the errors of the
// writes say as much. For writes by a thread of the program; those of ours have all signals
// blocked. Async-signal-safe.
class WithoutWriteSignals {
 public:
  WithoutWriteSignals() noexcept {
    sigset_t pending;
    sigpending(&pending);
    sigemptyset(&signals_);
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, signal) == 0) sigaddset(&signals_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~WithoutWriteSignals() {
    const int saved = errno;
    const timespec at_once{};
    while (sigtimedwait(&signals_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  WithoutWriteSignals(const WithoutWriteSignals&) = delete;
  WithoutWriteSignals& operator=(const WithoutWriteSignals&) = delete;

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

}  // namespace vortex::inline v0
