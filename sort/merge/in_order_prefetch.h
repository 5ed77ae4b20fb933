// Prefetching in an order that is fixed beforehand: naive and optimal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sort/merge/order_of_need.h"
#include "sort/merge/prefetch_policy.h"

namespace vortex { inline namespace v0 {

// Fetches blocks in a fixed order, each as soon as a buffer is free. Never drops one.
class InOrderPrefetch : public PrefetchPolicy {
 protected:
  using PrefetchPolicy::PrefetchPolicy;

  PrefetchAction decide() noexcept final;

  std::vector<Position> fetch_order_;  // set by the constructors of the derived classes

 private:
  std::size_t next_ = 0;
};

// In the order of need: the baseline that leaves disks idle while the next blocks lie on others.
class NaivePrefetch final : public InOrderPrefetch {
 public:
  // `held_blocks` buffers are enough; with no more, nothing is fetched ahead.
  static std::size_t minimum_buffers(const PrefetchOptions& options) noexcept;

  NaivePrefetch(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options);
};

struct PrefetchOrder {
  std::vector<Position> order;  // positions in the order of need, in the order of their fetching
  std::vector<std::uint32_t> step;  // for each entry of `order`, the parallel step that reads it
  std::uint32_t steps = 0;          // parallel steps in all
};

// The prefetch order σ′ (SPAA, section 2.4, after Hutchinson, Sanders and Vitter): the order of
// need is turned round and its blocks are written, by queues of one disk each that share `buffers`
// buffers; a block enters its disk's queue while fewer than `buffers` blocks wait, and when all are
// used, one step writes a block from every queue that is not empty. The order of the writes, turned
// round, reads all blocks in the least number of parallel steps that `buffers` buffers allow.
//
// `disk_of[p]` is the disk of the block at position p. Disks of unequal speed: `block_times[d]` is
// the time disk d takes for a block, in any unit that makes them small integers; a step is then one
// such unit. Empty means that all are equal. O(n log D) for equal disks.
//
// Throws Error (EINVAL) for no disks, no buffers, a block time of 0.
PrefetchOrder optimal_prefetch_order(std::span<const std::uint32_t> disk_of, unsigned disks,
                                     std::size_t buffers,
                                     std::span<const unsigned> block_times = {});

// In the optimal prefetch order for part of the buffers; the rest are overlap buffers (SPAA,
// section 2.3 and, for both kinds in one read buffer, section 3): they let reading run ahead of a
// merge that takes its blocks in bursts.
//
// Why a merge is never left waiting: let the blocks of steps before s be granted, and s be the
// first step that is not granted in full. In the schedule the order comes from, the blocks taken
// before step s are all of steps before s, so the merge can take them, and what is granted and not
// taken is at most what that schedule has in its `prefetch_blocks` buffers during step s, less what
// of step s is missing. Hence a buffer is free for the next block.
class OptimalPrefetch final : public InOrderPrefetch {
 public:
  // `prefetch_blocks`: the buffers that the order is computed for; 0 means the default of
  // default_prefetch_blocks(). `block_times`: see optimal_prefetch_order().
  struct Split {
    std::size_t prefetch_blocks = 0;
    std::vector<unsigned> block_times = {};
  };

  // held_blocks - 1 + prefetch_blocks: a merge that waits for a block has just given one back.
  static std::size_t minimum_buffers(const PrefetchOptions& options, const Split& split) noexcept;

  OptimalPrefetch(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
                  const Split& split);
  OptimalPrefetch(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options)
      : OptimalPrefetch(std::move(order), options, Split{}) {}

  std::size_t prefetch_blocks() const noexcept { return prefetch_blocks_; }

  // Parallel steps that reading takes at least with prefetch_blocks() buffers.
  std::uint32_t parallel_steps() const noexcept { return parallel_steps_; }

 private:
  std::size_t prefetch_blocks_;
  std::uint32_t parallel_steps_;
};

}}  // namespace vortex::v0
