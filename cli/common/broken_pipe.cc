#include "cli/common/broken_pipe.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "vortex/error.h"

namespace vortex::cli {

// The signal of the write itself reached no one: the kernel's threads or those of the disks write,
// which have it blocked. This thread has it as the program was started with it.
void end_process_at_broken_pipe(const std::exception& exception) noexcept {
  if (errno_of(exception, 0) != EPIPE) return;
  struct sigaction action {};
  sigset_t blocked;
  sigaction(SIGPIPE, nullptr, &action);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (action.sa_handler != SIG_DFL || sigismember(&blocked, SIGPIPE) == 1) return;
  static_cast<void>(raise(SIGPIPE));
  // The first process of a container outlives that; this is how a shell would tell.
  _exit(128 + SIGPIPE);
}

}  // namespace vortex::cli
