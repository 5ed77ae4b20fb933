// A request to stop, as a descriptor.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>

namespace vortex { inline namespace v0 {

// Wakes those who wait for a descriptor of their own and for this one (poll(2)). One thread at a
// time waits; any thread may request the stop.
class StopSignal {
 public:
  explicit StopSignal(std::stop_token stop) : stop_(std::move(stop)) {}
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  const std::stop_token& token() const noexcept { return stop_; }
  // Can be read once a stop has been requested; -1, which poll(2) passes over, where nobody can
  // request one. The first call makes it. Throws Error.
  int descriptor();
  // Throws Error(ECANCELED) when a stop has been requested.
  void expect_going() const;

 private:
  const std::stop_token stop_;
  int event_ = -1;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}}  // namespace vortex::v0
