#include "cli/common/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace vortex::cli {

namespace {

constexpr std::chrono::milliseconds kOnTerminals{100};
constexpr std::chrono::seconds kElsewhere{1};
constexpr std::size_t kUsualWidth = 80;

std::string short_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto scaled = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (scaled >= 1000 && unit + 1 < kUnits.size()) {
    scaled /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", scaled, unit > 0 && scaled < 10 ? 1 : 0, kUnits[unit]);
}

std::string short_time(double seconds) {
  const double minutes = std::ceil(seconds / 60);
  if (seconds < 100) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (minutes < 100) return fmt::format("{:.0f} min", minutes);
  return fmt::format("{:.0f} h {:.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
}

std::size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualWidth;
}

}  // namespace

std::string progress_text(const ProgressFacts& facts, std::size_t width) {
  std::array<std::string, 4> parts;
  if (facts.done) {
    // It is not done before it is.
    parts[0] = fmt::format("{:.0f} %", std::floor(100 * std::min(*facts.done, 1.0)));
    if (*facts.done > 0 && facts.seconds > 0) {
      parts[1] = short_time(facts.seconds * (1 - *facts.done) / *facts.done) + " left";
    }
  }
  parts[2] = std::string(facts.step);
  if (facts.bytes != 0) parts[2].append(" ").append(short_bytes(facts.bytes));
  if (facts.bytes_per_second > 0) {
    parts[3] = fmt::format("{:.0f} MB/s", facts.bytes_per_second / 1e6);
  }
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const std::string longer = text.empty() ? part : text + ", " + part;
    if (longer.size() > width) break;
    text = longer;
  }
  return text.empty() ? parts[facts.done ? 0 : 2].substr(0, std::max<std::size_t>(width, 1)) : text;
}

std::optional<double> SortEstimate::done(const SortProgress& now) {
  began_ = phase_ != now.phase || now.bytes < bytes_;
  if (began_) before_ += std::max(bytes_, phase_bytes_);  // which has ended
  phase_ = now.phase;
  bytes_ = now.bytes;
  phase_bytes_ = now.phase_bytes.value_or(0);
  if (!now.phase_bytes) return std::nullopt;
  const std::uint64_t behind = now.phase == SortPhase::kWriting ? 0 : *now.phase_bytes;
  const auto all = static_cast<double>(before_ + *now.phase_bytes + behind);
  if (all > 0) most_ = std::max(most_, static_cast<double>(before_ + bytes_) / all);
  return std::min(most_, 1.0);
}

ProgressLine::ProgressLine(std::string program, bool asked, bool only_if_asked)
    : program_(std::move(program)),
      terminal_(isatty(STDERR_FILENO) != 0),
      asked_(asked),
      only_if_asked_(only_if_asked) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::finish() {
  if (terminal_ && std::exchange(shown_, false)) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }
}

void ProgressLine::show(const SortProgress& now) {
  const std::optional<double> done = estimate_.done(now);
  show(to_string(now.phase), now.bytes, done, estimate_.phase_began());
}

void ProgressLine::show(std::string_view step, std::uint64_t bytes,
                        std::optional<std::uint64_t> all) {
  std::optional<double> done;
  if (all && *all != 0) done = static_cast<double>(bytes) / static_cast<double>(*all);
  show(step, bytes, done, false);
}

void ProgressLine::show(std::string_view step, std::uint64_t bytes, std::optional<double> done,
                        bool began) {
  const auto now = Clock::now();
  if (began) {
    step_began_ = now;
  } else if (now - last_shown_ < (terminal_ ? Clock::duration(kOnTerminals) : kElsewhere)) {
    return;
  }
  last_shown_ = now;
  const double step_seconds = std::chrono::duration<double>(now - step_began_).count();
  const ProgressFacts facts{
      .step = step,
      .bytes = bytes,
      .done = done,
      .seconds = std::chrono::duration<double>(now - began_).count(),
      .bytes_per_second = step_seconds > 0 ? static_cast<double>(bytes) / step_seconds : 0};
  shown_ = true;
  if (terminal_) {
    // The last column stays free: some terminals go to the next line behind it.
    fmt::print(stderr, "\r\033[K{}",
               progress_text(facts, std::max<std::size_t>(terminal_width(), 2) - 1));
  } else {
    fmt::print(stderr, "{}: {}\n", program_, progress_text(facts, kUsualWidth));
  }
  std::fflush(stderr);
}

}  // namespace vortex::cli
