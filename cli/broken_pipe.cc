#include "cli/broken_pipe.h"

#include <cerrno>
#include <csignal>

#include "vortex/error.h"

namespace vortex::cli {

// The signal of the write itself reached no one: the kernel's threads or those of the disks write,
// which have it blocked. This thread has it as the program was started with it.
void end_process_at_broken_pipe(const std::exception& exception) noexcept {
  if (errno_of(exception, 0) == EPIPE) static_cast<void>(raise(SIGPIPE));
}

}  // namespace vortex::cli
