// SRM's forecast and flush, with synchronous parallel reads.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sort/merge/disk_lookahead.h"
#include "sort/merge/prefetch_policy.h"

namespace vortex::inline v0 {

// Simple randomized merging (Barve and Vitter, section 4.4). Reads are synchronous: at most one
// block from each disk, the smallest unread one in the order of need, and all of them complete
// before the next parallel read starts. It starts when the smallest block of the one before
// (`marked`) begins to participate in the merge. Where fewer buffers are free than blocks are to be
// read, the blocks farthest away are flushed, that is dropped and fetched again later.
//
// A block that would be flushed and then be the first to be read from its disk again stays, and
// that disk reads nothing (footnote 10). Behind the last block of a disk no buffer is asked for it.
//
// The lookahead queue of the paper is the range of known positions that are not yet taken, so its
// head is the next block the merge takes; the merge must take blocks in the order of need.
class ForecastAndFlush final : public PrefetchPolicy {
 public:
  // 2R + D for a merge that holds one block of each of R runs; in general held_blocks + R + D.
  static std::size_t minimum_buffers(const PrefetchOptions& options, std::uint32_t runs) noexcept;

  // `runs`: how many runs are merged, R of the paper; the first R blocks of the order are the first
  // blocks of the runs.
  ForecastAndFlush(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
                   std::uint32_t runs);

 private:
  PrefetchAction decide() noexcept override;
  void on_fetched(Position) noexcept override { --in_flight_; }
  void on_taken(Position position) noexcept override;

  void plan_first_blocks() noexcept;
  void plan_parallel_read() noexcept;
  void choose_flushes() noexcept;
  void fill_lookahead() noexcept;

  DiskLookahead lookahead_;
  Position first_blocks_;  // the blocks that step 1 reads
  Position first_blocks_planned_ = 0;
  bool read_due_ = false;  // `marked` has begun to participate
  Position marked_ = kNoPosition;
  Position next_marked_ = kNoPosition;
  Position next_taken_ = 0;  // head of the lookahead queue
  std::size_t in_flight_ = 0;
  std::vector<PrefetchAction> planned_;  // what remains of the parallel read, drops first
  std::size_t planned_done_ = 0;
  std::vector<Position> kept_;  // per disk: the block that stays instead of being read again
};

}  // namespace vortex::inline v0
