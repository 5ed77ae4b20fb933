// How far a sort is, on standard error.
#pragma once

#include <chrono>
#include <optional>

#include "vortex/sort_resources.h"

namespace vortex::cli {

// On a terminal one line that is written over; elsewhere, if asked for, a line now and then.
class ProgressLine {
 public:
  explicit ProgressLine(bool always);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool wanted() const noexcept { return terminal_ || always_; }
  void show(const SortProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  bool always_;
  bool shown_ = false;
  std::optional<SortPhase> phase_;
  Clock::time_point phase_began_;
  Clock::time_point last_shown_;
};

}  // namespace vortex::cli
