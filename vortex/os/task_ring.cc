#include "vortex/os/task_ring.h"

#include <utility>

#include "vortex/os/activity.h"

namespace vortex::inline v0 {

TaskRing::TaskRing(std::size_t slots, unsigned threads, Work work)
    : work_(std::move(work)), done_(slots) {
  for (unsigned i = 1; i < threads; ++i) {
    auto thread = std::make_unique<MaskedThread>();
    const auto body = [this, i, log = Working::log()] {
      const Working working(log, "worker", i);
      while (is_any_waiting()) do_next(i);
    };
    if (thread->start(body, ThreadSignals::kOwnFaults) != 0) break;
    threads_.push_back(std::move(thread));
  }
}

TaskRing::~TaskRing() {
  waiting_.close();
  threads_.clear();
}

void TaskRing::submit() noexcept {
  done_[next_free()].store(false, std::memory_order_relaxed);
  ++submitted_;
  waiting_.release();
}

std::size_t TaskRing::await() noexcept {
  const auto slot = static_cast<std::size_t>(released_ % done_.size());
  for (;;) {
    const std::uint32_t ticket = ended_.ticket();
    if (done_[slot].load(std::memory_order_acquire)) return slot;
    if (waiting_.try_acquire()) {
      do_next(0);
    } else {
      const Waiting waiting;
      ended_.await(ticket);
    }
  }
}

// False: the ring goes.
bool TaskRing::is_any_waiting() noexcept {
  const Waiting waiting;
  return waiting_.acquire();
}

// A unit of `waiting_` was taken, so a slot is there to be begun. It may be one that was submitted
// after that unit, which whoever begins the one before it has seen.
void TaskRing::do_next(unsigned worker) noexcept {
  const auto slot =
      static_cast<std::size_t>(begun_.fetch_add(1, std::memory_order_acq_rel) % done_.size());
  {
    const WorkSpan span(SpanKind::kSort);
    work_(slot, worker);
  }
  done_[slot].store(true, std::memory_order_release);
  ended_.notify();
}

}  // namespace vortex::inline v0
