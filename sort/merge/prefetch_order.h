// The optimal order in which to fetch blocks that are needed in a given order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sort/merge/order_of_need.h"

namespace vortex { inline namespace v0 {

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

}}  // namespace vortex::v0
