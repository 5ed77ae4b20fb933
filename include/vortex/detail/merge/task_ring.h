// Work on a ring of slots by several threads, handed in and out in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// The owner fills a slot and submits it, some thread works on it, and the owner empties it, slot
// after slot around the ring. The owner works, too, while it waits.
//
// All calls are for the owner. submit(), await() and release() neither allocate nor throw.
class VORTEX_EXPORT TaskRing {
 public:
  // As what the trace shows the work.
  enum class Kind : std::uint8_t { kSort, kMerge };
  // `work(slot, worker)` must not throw; it is called by any thread, for each slot by one at a
  // time, and by each worker for one: 0 is the owner. Starts `threads` - 1 threads, or as many as
  // the system grants and there is memory for, which work for the log of the caller. They do not
  // run the program's signal handlers, but for the signals that their own instructions raise.
  using Work = std::function<void(std::size_t slot, unsigned worker)>;
  TaskRing(Kind kind, std::size_t slots, unsigned threads, Work work);
  // Ends the threads; what has not been begun is not done.
  ~TaskRing();
  TaskRing(const TaskRing&) = delete;
  TaskRing& operator=(const TaskRing&) = delete;

  std::size_t free_slots() const noexcept;
  bool empty() const noexcept;  // no slot was submitted and not released
  // The slot to be filled next; there must be a free one.
  std::size_t next_free() const noexcept;
  void submit() noexcept;
  // Waits for the work on the slot that was submitted first and not released; there must be one.
  // Returns it.
  std::size_t await() noexcept;
  // Makes it free again.
  void release() noexcept;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}}}  // namespace vortex::v0::detail
