// When a reader needs which byte: by a rate, by deadlines, or as it has been seen to read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "vortex/files/timed_readers.h"

namespace vortex { inline namespace v0 {

// Times are nanoseconds on the group's clock, as numbers that a far future fits in. A reader that
// is behind its time is not behind for ever: from the block that it took last its rate goes on.
class Pace {
 public:
  explicit Pace(const TimedReaderOptions& options)
      : given_(options.bytes_per_s), due_ns_(options.due_ns) {}

  // Bytes a second: given, or observed; 0: not known yet.
  double rate() const noexcept { return given_ > 0 ? given_ : observed_; }
  double given() const noexcept { return given_; }
  void set(double bytes_per_s) noexcept {
    given_ = bytes_per_s;
    due_ns_ = nullptr;
  }

  // The time between the need of two bytes; `guess` is the rate of a reader of which none is known.
  double between(std::uint64_t from, std::uint64_t to, double guess) const {
    if (due_ns_)
      return std::max(0.0, static_cast<double>(due_ns_(to)) - static_cast<double>(due_ns_(from)));
    return static_cast<double>(to - from) * 1e9 / (rate() > 0 ? rate() : guess);
  }

  // When the byte at `offset` is needed, behind which nothing has been taken. That is now where the
  // reader waits for it. One that has not begun comes behind those that have: it may begin at any
  // time, and takes as long as `unit_bytes` do.
  double due(std::uint64_t offset, double now, double guess, std::size_t unit_bytes) const {
    if (asked_) return now;
    if (!started_)
      return now + static_cast<double>(unit_bytes) * 1e9 / (rate() > 0 ? rate() : guess);
    return std::max(now, taken_ns_ + between(taken_, offset, guess));
  }

  // The reader wants the byte at `offset`: it has done with what lies before.
  void asks(std::uint64_t offset, double now) noexcept {
    if (std::exchange(asked_, true) || !started_) return;
    const double seen = static_cast<double>(offset - taken_) * 1e9 / std::max(now - taken_ns_, 1.0);
    observed_ = observed_ > 0 ? observed_ + (seen - observed_) / 4 : seen;
  }
  void takes(std::uint64_t offset, double now) noexcept {
    taken_ = offset;
    taken_ns_ = now;
    started_ = true;
    asked_ = false;
  }
  bool started() const noexcept { return started_; }
  bool asked() const noexcept { return asked_; }

 private:
  double given_;
  double observed_ = 0;
  std::function<std::uint64_t(std::uint64_t)> due_ns_;
  bool started_ = false;
  bool asked_ = false;  // for what is not there
  std::uint64_t taken_ = 0;
  double taken_ns_ = 0;
};

}}  // namespace vortex::v0
