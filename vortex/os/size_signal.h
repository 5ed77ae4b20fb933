// Calls that RLIMIT_FSIZE may refuse, as errors and nothing else.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace vortex::inline v0::os {

// Makes a call that returns a negative number and sets errno where it fails. Beyond RLIMIT_FSIZE
// the kernel raises SIGXFSZ in the thread that made it, besides EFBIG, and that ends a process
// which has not heard of it. Here the thread does not take the signal, and the program's action
// stays as it is. Async-signal-safe.
template <typename Call>
auto without_size_signal(Call call) noexcept(noexcept(call())) {
  sigset_t size;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&size);
  sigaddset(&size, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &size, &before);
  // One that somebody else sent is theirs.
  const bool was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
  const auto result = call();
  const int error = errno;
  if (result < 0 && error == EFBIG && !was_pending) {
    constexpr timespec kNow{};
    constexpr long kKernelMaskBytes = 8;
    while (syscall(SYS_rt_sigtimedwait, &size, nullptr, &kNow, kKernelMaskBytes) < 0 &&
           errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return result;
}

}  // namespace vortex::inline v0::os
