#include "vortex/fault/diagnostics.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "vortex/line_buffer.h"

namespace vortex::inline v0 {

void write_line(std::string_view line) noexcept {
  const int saved = errno;
  LineBuffer<1024> text;
  text.text(line.substr(0, 1000)).text("\n");
  std::string_view rest = text.view();
  while (!rest.empty()) {
    const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  errno = saved;
}

void fatal(std::string_view line) noexcept {
  write_line(line);
  std::abort();
}

}  // namespace vortex::inline v0
