#include "vortex/detail/radix/broken_bound.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace vortex { inline namespace v0 { namespace detail {

void broken_bound(const char* line) noexcept {
  // Nothing is left to do when stderr is closed.
  if (write(STDERR_FILENO, line, std::strlen(line)) < 0) std::abort();
  std::abort();
}

}}}  // namespace vortex::v0::detail
