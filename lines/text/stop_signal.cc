#include "lines/text/stop_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "sort/runs/sort_watch.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

StopSignal::~StopSignal() {
  on_stop_.reset();
  if (event_ >= 0) close(event_);
}

int StopSignal::descriptor() {
  if (event_ >= 0 || !stop_.stop_possible()) return event_;
  event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_ < 0) throw Error(errno, "eventfd");
  on_stop_.emplace(stop_, [event = event_] {
    const std::uint64_t one = 1;
    // Fails only when the event is signalled already.
    if (write(event, &one, sizeof one) < 0) return;
  });
  return event_;
}

void StopSignal::expect_going() const {
  if (stop_.stop_requested()) throw Error(ECANCELED, kSortInterrupted);
}

}}  // namespace vortex::v0
