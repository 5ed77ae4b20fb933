// How far a verb is, on standard error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "vortex/sort_resources.h"

namespace vortex::cli {

// What is done of a whole, and of the step in hand.
struct ProgressFacts {
  std::string_view step;            // "reading"
  std::uint64_t bytes = 0;          // of the step
  std::optional<double> done = {};  // of the whole, from 0 to 1; none: nobody knows
  double seconds = 0;               // since the beginning
  double bytes_per_second = 0;      // of the step; 0: not known yet
};

// "40 %, 12 s left, reading 1.5 GiB, 350 MB/s": as much of it, from the front, as fits in `width`
// columns; at least one. The time is for all that is left.
std::string progress_text(const ProgressFacts& facts, std::size_t width);

// How much of a whole sort is done. The phases to come count as many bytes as are read or merged.
class SortEstimate {
 public:
  // From 0 to 1, never less than before; none where the length of an input is not known.
  std::optional<double> done(const SortProgress& now);
  // Whether now is the first report of a phase.
  bool phase_began() const noexcept { return began_; }

 private:
  std::optional<SortPhase> phase_;
  std::uint64_t bytes_ = 0;        // of the phase
  std::uint64_t phase_bytes_ = 0;  // in all
  std::uint64_t before_ = 0;       // of those in front
  double most_ = 0;
  bool began_ = false;
};

// On a terminal one line that is written over and never longer than a line; elsewhere, if asked
// for, a line now and then. One thread at a time.
class ProgressLine {
 public:
  // `program` begins the lines elsewhere. On terminals it is shown unless `asked` only.
  ProgressLine(std::string program, bool asked, bool only_if_asked = false);
  // As finish().
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool wanted() const noexcept { return asked_ || (terminal_ && !only_if_asked_); }
  // The line of a sort.
  void show(const SortProgress& now);
  // The line of what has one step.
  void show(std::string_view step, std::uint64_t bytes, std::optional<std::uint64_t> all);
  // Wipes the line: something else is written now.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  void show(std::string_view step, std::uint64_t bytes, std::optional<double> done, bool began);

  const std::string program_;
  const bool terminal_;
  const bool asked_;
  const bool only_if_asked_;
  bool shown_ = false;
  SortEstimate estimate_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point step_began_ = began_;
  Clock::time_point last_shown_;
};

}  // namespace vortex::cli
