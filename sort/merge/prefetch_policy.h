// Policies that decide which block a merge fetches next, and are made by their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sort/merge/order_of_need.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

struct PrefetchOptions {
  unsigned disks = 1;

  // Blocks for input in all: those that the merge holds, those fetched ahead, and those whose read
  // is under way.
  std::size_t buffers = 0;

  // The most blocks that the merge holds at once: k (M + 1) for k runs with a comeback of M blocks.
  // It gives a block of a run back before it takes the next one of that run.
  std::size_t held_blocks = 0;
};

// The action that the driver has to carry out next.
struct PrefetchAction {
  enum class Kind : std::uint8_t {
    kNothing,  // until the next event
    kFetch,    // queue a read of the block on its disk, into a free buffer
    kDrop,  // free the buffer of a block that was fetched and not taken: it is fetched again later
  };

  Kind kind = Kind::kNothing;
  Position position = kNoPosition;
  NeededBlock block = {};
};

// Decides which block is fetched next while runs are merged. It sees the order of need and the
// disks, nothing else; a driver (a real merge, a simulation, a test) tells it what happens and
// carries out what it decides:
//
//   after each event:  while (action = policy.next(), action.kind != kNothing) carry out action
//
// All buffers are granted here, in one order over all disks; the driver's disk queues only issue,
// one FIFO a disk. The policy grants no more than options.buffers, and it never leaves a merge that
// takes blocks in the order of need waiting while nothing is being read.
//
// Events and next() neither allocate nor throw nor wait, so they may be called inside a fault. Not
// thread-safe: the driver's lock guards a policy.
class PrefetchPolicy {
 public:
  virtual ~PrefetchPolicy();
  PrefetchPolicy(const PrefetchPolicy&) = delete;
  PrefetchPolicy& operator=(const PrefetchPolicy&) = delete;

  PrefetchAction next() noexcept;

  // The read of a block is complete.
  void fetched(Position position) noexcept;

  // The merge takes a block, which must be ready(): the next one of the order of need, or another
  // one that is the next of its run.
  void taken(Position position) noexcept;

  // The merge gives a block back that it has taken.
  void released(Position position) noexcept;

  // Whether the block is in memory and not yet taken.
  bool ready(Position position) const noexcept { return state_[position] == State::kReady; }

  Position blocks() const noexcept { return static_cast<Position>(state_.size()); }
  unsigned disks() const noexcept { return options_.disks; }
  std::size_t buffers() const noexcept { return options_.buffers; }

  struct Statistics {
    std::uint64_t fetches = 0;  // blocks read, each time they were
    std::uint64_t drops = 0;    // blocks dropped, each of them read once more
    // Synchronous policies: reads of up to one block from each disk.
    std::uint64_t parallel_reads = 0;
    std::size_t peak_buffers = 0;
  };
  const Statistics& statistics() const noexcept { return statistics_; }

 protected:
  enum class State : std::uint8_t { kOnDisk, kFetching, kReady, kHeld, kDone };

  // Throws Error (ENOBUFS) when options.buffers is below `minimum_buffers`, and says how many would
  // do.
  PrefetchPolicy(std::string_view name, std::unique_ptr<OrderOfNeed> order,
                 const PrefetchOptions& options, std::size_t minimum_buffers);

  // The decision. The base class keeps the books.
  virtual PrefetchAction decide() noexcept = 0;
  virtual void on_fetched(Position) noexcept {}
  virtual void on_taken(Position) noexcept {}
  virtual void on_released(Position) noexcept {}

  // Learns one more block of the order; false when it is known to the end.
  bool look_ahead() noexcept;

  // Blocks known so far: positions [0, known()).
  Position known() const noexcept { return static_cast<Position>(order_so_far_.size()); }
  const NeededBlock& block(Position position) const noexcept { return order_so_far_[position]; }
  State state(Position position) const noexcept { return state_[position]; }
  std::size_t free_buffers() const noexcept { return options_.buffers - in_use_; }
  void count_parallel_read() noexcept { ++statistics_.parallel_reads; }

  PrefetchAction fetch(Position position) const noexcept {
    return {PrefetchAction::Kind::kFetch, position, order_so_far_[position]};
  }
  PrefetchAction drop(Position position) const noexcept {
    return {PrefetchAction::Kind::kDrop, position, order_so_far_[position]};
  }

 private:
  const PrefetchOptions options_;
  const std::unique_ptr<OrderOfNeed> order_;
  std::vector<NeededBlock> order_so_far_;
  std::vector<State> state_;
  std::size_t in_use_ = 0;
  Statistics statistics_;
};

// The least options.buffers with which a merge of `runs` runs cannot get stuck; options.buffers
// itself is not looked at.
std::size_t minimum_read_buffers(PrefetchKind kind, const PrefetchOptions& options,
                                 std::uint32_t runs);

// A policy for the merge of `runs` runs. Throws Error (ENOBUFS) when options.buffers is below
// minimum_read_buffers(). `block_times` (see optimal_prefetch_order) is for the optimal policy, the
// only one that plans ahead for disks of unequal speed. `reads_per_disk` is for the asynchronous
// form of SRM.
std::unique_ptr<PrefetchPolicy> make_prefetch_policy(
    PrefetchKind kind, std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
    std::uint32_t runs, const std::vector<unsigned>& block_times = {}, unsigned reads_per_disk = 2);

}}  // namespace vortex::v0
