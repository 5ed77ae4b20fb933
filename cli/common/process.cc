#include "cli/common/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <system_error>

#include "vortex/error.h"

// For jemalloc, where it is the heap of the program. It crashes when a thread's first allocation
// finds no memory for another arena; threads of the programs allocate seldom, and share one.
extern "C" const char* const malloc_conf = "narenas:1";

namespace vortex::cli {

void occupy_closed_standard_descriptors(bool messages_must_be_told) {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const bool fails_to_write =
        descriptor == STDOUT_FILENO || (descriptor == STDERR_FILENO && messages_must_be_told);
    // Takes the lowest number, which is this one.
    static_cast<void>(open("/dev/null", fails_to_write ? O_RDONLY : O_WRONLY));
  }
}

// Opened anew by its name, a file would begin at its first byte, and a socket cannot be opened.
std::string rest_of_standard_input() {
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t bytes = read(STDIN_FILENO, text.data() + before, kPiece);
    if (bytes < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "standard input");
    }
    text.resize(before + static_cast<std::size_t>(bytes < 0 ? 0 : bytes));
    if (bytes == 0) return text;
  }
}

void allow_many_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

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
