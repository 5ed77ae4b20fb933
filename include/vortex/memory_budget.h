// Memory that several sorts of a process share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <utility>

#include "vortex/detail/export.h"

namespace vortex::inline v0 {

class MemoryBudget;

// Part of a budget, until it ends or is given back. Movable; the empty one holds nothing.
class VORTEX_EXPORT MemoryShare {
 public:
  MemoryShare() = default;
  ~MemoryShare() { shrink_to(0); }
  MemoryShare(MemoryShare&& other) noexcept;
  MemoryShare& operator=(MemoryShare&& other) noexcept;

  std::uint64_t bytes() const noexcept { return bytes_; }

  // Gives what is beyond `bytes` back. Never blocks.
  void shrink_to(std::uint64_t bytes) noexcept;

  // Takes what is free, up to `bytes` in all. Never blocks, and takes nothing while others wait.
  // Returns how many bytes it took.
  std::uint64_t grow_to(std::uint64_t bytes) noexcept;

 private:
  friend class MemoryBudget;
  MemoryShare(std::shared_ptr<MemoryBudget> budget, std::uint64_t bytes) noexcept
      : budget_(std::move(budget)), bytes_(bytes) {}

  std::shared_ptr<MemoryBudget> budget_;
  std::uint64_t bytes_ = 0;
};

// So many bytes, for sorts that run at once:
//
//   constexpr std::uint64_t kGiB = 1 << 30;
//   const auto budget = vortex::MemoryBudget::make(4 * kGiB);
//   vortex::Sorter<Point> points({.memory_bytes = 3 * kGiB, .budget = budget});
//   vortex::Sorter<Name> names({.memory_bytes = 3 * kGiB, .budget = budget});  // gets 1 GiB
//
// Each sort takes its share before it allocates anything, and returns it when it ends: its memory,
// which is all within the share, has gone back to the system then. It takes what is free, at most
// SortResources::memory_bytes; where SortResources::least_memory_bytes are not free, it waits until
// others end, in the order of coming. A sort of files that are small keeps only what it needs. A
// sort of records of one length that comes to its merges takes more for them if others have ended
// meanwhile. Sorters take their share when they are made, sorts of files and plan_external_sort()
// when they are called.
//
// A thread that waits for memory which a sorter of its own holds waits for ever: give such sorters
// `memory_bytes` that fit the budget together. The budget counts; it allocates nothing. A program
// may take shares for its own arrays, too. Thread-safe. Not for forked children.
class VORTEX_EXPORT MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  static std::shared_ptr<MemoryBudget> make(std::uint64_t bytes);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }
  // In no share, at this moment.
  std::uint64_t free_bytes() const noexcept;
  // Calls of take() that wait, at this moment.
  std::size_t waiting() const noexcept;

  // A share of at most `most` bytes, and at least `least`. Waits while less is free, and while
  // those who came before wait. Throws Error: ENOMEM when the whole budget is less than `least`,
  // ECANCELED after a request to stop; std::bad_alloc.
  MemoryShare take(std::uint64_t least, std::uint64_t most, std::stop_token stop = {});

 private:
  friend class MemoryShare;
  class State;

  explicit MemoryBudget(std::uint64_t bytes);

  const std::uint64_t bytes_;
  const std::unique_ptr<State> state_;
};

}  // namespace vortex::inline v0
