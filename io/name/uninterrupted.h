// System calls that a signal interrupts.
#pragma once

#include <cerrno>

namespace vortex { inline namespace v0 {

// Repeats a call that returns 0 or sets errno: tmpfs, for one, gives up allocating when a timer's
// signal comes.
template <typename Call>
int uninterrupted(Call call) {
  int result = 0;
  do {
    result = call();
  } while (result != 0 && errno == EINTR);
  return result;
}

}}  // namespace vortex::v0
