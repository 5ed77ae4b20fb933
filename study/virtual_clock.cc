#include "study/virtual_clock.h"

#include <algorithm>

namespace vortex { inline namespace v0 {

void VirtualClock::schedule(VirtualEvent& event, std::uint64_t time_ns) noexcept {
  event.time_ns_ = std::max(time_ns, now_ns_);
  VirtualEvent** at = &first_;
  while (*at != nullptr && (*at)->time_ns_ <= event.time_ns_) at = &(*at)->next_;
  event.next_ = *at;
  *at = &event;
}

bool VirtualClock::step() noexcept {
  VirtualEvent* const event = first_;
  if (event == nullptr) return false;
  first_ = event->next_;
  now_ns_ = event->time_ns_;
  event->happen();
  return true;
}

void VirtualClock::advance(std::uint64_t duration_ns) noexcept {
  const std::uint64_t end = now_ns_ + duration_ns;
  while (first_ != nullptr && first_->time_ns_ <= end) step();
  now_ns_ = end;
}

}}  // namespace vortex::v0
