// Ending a sort that waits inside a fault.
#pragma once

#include <cerrno>
#include <functional>
#include <stop_token>

#include "vortex/stream.h"

namespace vortex::inline v0 {

inline constexpr const char* kSortInterrupted = "the sort was interrupted";

// While this lives, a request to stop wakes whoever waits inside a fault of the stream, which fails
// with ECANCELED.
class StreamStop {
 public:
  StreamStop(Stream& stream, const std::stop_token& stop)
      : on_stop_(stop, [&stream] { stream.cancel(ECANCELED, kSortInterrupted); }) {}

 private:
  std::stop_callback<std::function<void()>> on_stop_;
};

}  // namespace vortex::inline v0
