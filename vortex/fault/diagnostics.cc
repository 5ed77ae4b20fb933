#include "vortex/fault/diagnostics.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "vortex/detail/stream/printable.h"
#include "vortex/error.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

void write_line(std::string_view line) noexcept {
  const KeptErrno kept;
  // Room for the end of the line is kept.
  LineBuffer<1023> shown;
  detail::put_printable(line, [&shown](std::string_view piece) { shown.text(piece); });
  LineBuffer<1024> text;
  text.text(shown.view()).text("\n");
  std::string_view rest = text.view();
  while (!rest.empty()) {
    const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void fatal(std::string_view line) noexcept {
  write_line(line);
  std::abort();
}

}}  // namespace vortex::v0
