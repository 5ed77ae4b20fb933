#include "cli/common/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace vortex::cli {

void occupy_closed_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int wrong_way = descriptor == STDOUT_FILENO ? O_RDONLY : O_WRONLY;
    static_cast<void>(open("/dev/null", wrong_way));  // takes the lowest number, which is this one
  }
}

}  // namespace vortex::cli
