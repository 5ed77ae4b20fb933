#include "cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "vortex/error.h"

namespace vortex::cli {
namespace {

constexpr std::chrono::milliseconds kOnTerminals{100};
constexpr std::chrono::seconds kElsewhere{1};

}  // namespace

ProgressLine::ProgressLine(bool always) : terminal_(isatty(STDERR_FILENO) != 0), always_(always) {}

ProgressLine::~ProgressLine() {
  // Wipes the line.
  if (terminal_ && shown_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(const SortProgress& progress) {
  const auto now = Clock::now();
  if (phase_ != progress.phase || progress.bytes == 0) {
    phase_ = progress.phase;
    phase_began_ = now;
  } else if (now - last_shown_ < (terminal_ ? Clock::duration(kOnTerminals) : kElsewhere)) {
    return;
  }
  last_shown_ = now;
  const double seconds = std::chrono::duration<double>(now - phase_began_).count();
  const auto done = static_cast<double>(progress.bytes);
  std::string text(to_string(progress.phase));
  if (progress.bytes != 0) {
    text += fmt::format(" {:.1f} MiB", done / (1 << 20));
    if (progress.phase_bytes && *progress.phase_bytes != 0) {
      text += fmt::format(", {:.0f} %", 100 * done / static_cast<double>(*progress.phase_bytes));
    }
    if (seconds > 0) text += fmt::format(", {:.0f} MB/s", done / seconds / 1e6);
    if (progress.phase_bytes && *progress.phase_bytes >= progress.bytes) {
      const auto left = static_cast<double>(*progress.phase_bytes - progress.bytes);
      text += fmt::format(", {:.0f} s left", left * seconds / done);
    }
  }
  shown_ = true;
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}", text);
  } else {
    fmt::print(stderr, "vortex sort: {}\n", text);
  }
  std::fflush(stderr);
}

}  // namespace vortex::cli
