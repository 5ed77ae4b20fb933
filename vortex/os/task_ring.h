// Work on a ring of slots by several threads, handed in and out in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "vortex/detail/export.h"
#include "vortex/os/futex.h"
#include "vortex/os/masked_thread.h"

namespace vortex::inline v0 {

// The owner fills a slot and submits it, some thread works on it, and the owner empties it, slot
// after slot around the ring. The owner works, too, while it waits.
//
// submit(), await() and release() are for the owner.
class VORTEX_EXPORT TaskRing {
 public:
  // `work(slot, worker)` must not throw; it is called by any thread, for each slot by one at a
  // time, and by each worker for one: 0 is the owner. Starts `threads` - 1 threads, or as many as
  // the system grants, which work for the log of the caller.
  using Work = std::function<void(std::size_t slot, unsigned worker)>;
  TaskRing(std::size_t slots, unsigned threads, Work work);
  // Ends the threads; what has not been begun is not done.
  ~TaskRing();
  TaskRing(const TaskRing&) = delete;
  TaskRing& operator=(const TaskRing&) = delete;

  std::size_t free_slots() const noexcept { return done_.size() - (submitted_ - released_); }
  bool empty() const noexcept { return submitted_ == released_; }
  // The slot to be filled next; there must be a free one.
  std::size_t next_free() const noexcept { return submitted_ % done_.size(); }
  void submit() noexcept;
  // Waits for the work on the slot that was submitted first and not released. Returns it.
  std::size_t await() noexcept;
  // Makes it free again.
  void release() noexcept { ++released_; }

 private:
  bool is_any_waiting() noexcept;
  void do_next(unsigned worker) noexcept;

  const Work work_;
  std::uint64_t submitted_ = 0;
  std::uint64_t released_ = 0;
  std::vector<std::atomic<bool>> done_;
  std::atomic<std::uint64_t> begun_{0};
  FutexSemaphore waiting_;  // slots that nobody has begun to work on
  FutexEvent ended_;        // work on a slot
  std::vector<std::unique_ptr<MaskedThread>> threads_;
};

}  // namespace vortex::inline v0
