// Simple randomized merging: forecast and flush, with synchronous parallel reads and with each disk
// on its own.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sort/merge/order_of_need.h"
#include "sort/merge/prefetch_policy.h"

namespace vortex { inline namespace v0 {

// The occupancy queues of Barve and Vitter, section 4.2: for each disk the known blocks that are
// still (or, flushed, again) on it, in the order of need. Nothing here allocates.
class DiskLookahead {
 public:
  DiskLookahead(unsigned disks, Position blocks)
      : head_(disks, kNoPosition), tail_(disks, kNoPosition), next_(blocks, kNoPosition) {}

  // The first block to read from a disk, kNoPosition where none is known.
  Position head(unsigned disk) const noexcept { return head_[disk]; }

  // `position` comes behind all others of its disk.
  void append(unsigned disk, Position position) noexcept {
    next_[position] = kNoPosition;
    (head_[disk] == kNoPosition ? head_[disk] : next_[tail_[disk]]) = position;
    tail_[disk] = position;
  }

  // `position` was flushed and comes back to its place. Few blocks are nearer: each was flushed
  // too.
  void put_back(unsigned disk, Position position) noexcept {
    Position* link = &head_[disk];
    while (*link != kNoPosition && *link < position) {
      link = &next_[*link];
    }
    next_[position] = *link;
    *link = position;
    if (next_[position] == kNoPosition) tail_[disk] = position;
  }

  void remove_head(unsigned disk) noexcept { head_[disk] = next_[head_[disk]]; }

 private:
  std::vector<Position> head_;
  std::vector<Position> tail_;
  std::vector<Position> next_;  // of the same disk
};

// Simple randomized merging (Barve and Vitter, section 4.4). Reads are synchronous: at most one
// block from each disk, the smallest unread one in the order of need, and all of them complete
// before the next parallel read starts. It starts when the smallest block of the one before
// (`marked`) begins to participate in the merge. Where fewer buffers are free than blocks are to be
// read, the blocks farthest away are flushed, that is dropped and fetched again later.
//
// A block that would be flushed and then be the first to be read from its disk again stays, and
// that disk reads nothing (footnote 10). Behind the last block of a disk no buffer is asked for it.
//
// The lookahead queue of the paper is the range of known positions that are not yet taken. Where
// blocks are taken in another order, `marked` is waited for all the same.
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
  std::size_t in_flight_ = 0;
  std::vector<PrefetchAction> planned_;  // what remains of the parallel read, drops first
  std::size_t planned_done_ = 0;
  std::vector<Position> kept_;  // per disk: the block that stays instead of being read again
};

// The asynchronous form of forecast and flush, which Barve and Vitter leave open (section 1): a
// disk that has nothing to do reads the smallest unread block on it, and waits for no other disk.
// Free buffers go to the disk whose block is needed first. Where none is free, a block that the
// merge is about to need takes the buffer of the block that is needed last, which is flushed; a
// block farther away waits until the merge gives a buffer back. "About to need" is one of the next
// D blocks: flushing for less urgent ones keeps slow disks busier and reads more blocks twice
// (docs/decisions/0024-asynchronous-srm.md).
class AsynchronousForecastAndFlush final : public PrefetchPolicy {
 public:
  // It takes as many buffers as the synchronous form. `reads_per_disk`: how many reads are queued
  // on a disk at once; 2 keep a real disk busy while its driver is told of the first.
  AsynchronousForecastAndFlush(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
                               std::uint32_t runs, unsigned reads_per_disk = 1);

 private:
  PrefetchAction decide() noexcept override;
  void on_fetched(Position position) noexcept override { --reading_[block(position).disk]; }
  void on_taken(Position position) noexcept override;

  Position first_unread() noexcept;
  Position last_ready() noexcept;

  DiskLookahead lookahead_;
  const unsigned reads_per_disk_;
  std::vector<unsigned> reading_;  // reads queued on each disk
  Position next_taken_ = 0;        // head of the lookahead queue
};

}}  // namespace vortex::v0
