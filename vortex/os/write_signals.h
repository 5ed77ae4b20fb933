// The signals that the kernel sends to a thread whose write it refuses.
#pragma once

#include <signal.h>
#include <time.h>

#include <cerrno>
#include <initializer_list>

namespace vortex { inline namespace v0 { namespace os {

// Puts them off while it lives, and forgets those that came: the errors of the writes say as much.
// What somebody else had sent before is theirs, and the program's actions stay as they are. For
// calls by a thread of the program; threads of ours have all signals blocked. Async-signal-safe.
class WithoutWriteSignals {
 public:
  explicit WithoutWriteSignals(std::initializer_list<int> signals = {SIGPIPE, SIGXFSZ}) noexcept {
    sigset_t pending;
    sigpending(&pending);
    sigemptyset(&signals_);
    for (const int signal : signals) {
      if (sigismember(&pending, signal) == 0) sigaddset(&signals_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~WithoutWriteSignals() {
    const int saved = errno;
    const timespec at_once{};
    while (sigtimedwait(&signals_, nullptr, &at_once) > 0 || errno == EINTR) {
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

// Makes a call that RLIMIT_FSIZE may refuse: SIGXFSZ, which comes besides EFBIG, would end a
// process that has not heard of it.
template <typename Call>
auto without_size_signal(Call call) noexcept(noexcept(call())) {
  const WithoutWriteSignals without{SIGXFSZ};
  return call();
}

}}}  // namespace vortex::v0::os
