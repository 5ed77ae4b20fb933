#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

#include "cli/command_line.h"

namespace {

// A file that is opened while descriptor 1 or 2 is closed would become standard output or error,
// and get our messages between its records. So something else must be there: what fails, as a
// closed descriptor does, but messages to nobody are no error.
void occupy_closed_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int wrong_way = descriptor == STDOUT_FILENO ? O_RDONLY : O_WRONLY;
    static_cast<void>(open("/dev/null", wrong_way));  // takes the lowest number, which is this one
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_standard_descriptors();
  return vortex::cli::run(argc, argv);
}
