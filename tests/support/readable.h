// Whether memory is there, asked without touching it: no handler notices.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace vortex::test {

// Whether a system call could read a byte at `address`.
inline bool readable(const void* address) {
  int ends[2];
  if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const bool result = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return result;
}

}  // namespace vortex::test
