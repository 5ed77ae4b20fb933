// Forecast and flush with each disk on its own.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sort/merge/disk_lookahead.h"
#include "sort/merge/prefetch_policy.h"

namespace vortex::inline v0 {

// The asynchronous form of forecast and flush, which Barve and Vitter leave open (section 1): a
// disk that has nothing to do reads the smallest unread block on it, and waits for no other disk.
// Free buffers go to the disk whose block is needed first. Where none is free, a block that the
// merge is about to need takes the buffer of the block that is needed last, which is flushed; a
// block farther away waits until the merge gives a buffer back. "About to need" is one of the next
// D blocks: flushing for less urgent ones keeps slow disks busier and reads more blocks twice
// (docs/decisions.md, "Asynchronous SRM flushes for one of the next D blocks").
class AsynchronousForecastAndFlush final : public PrefetchPolicy {
 public:
  // As for the synchronous form: 2R + D where the merge holds one block of each of R runs.
  static std::size_t minimum_buffers(const PrefetchOptions& options, std::uint32_t runs) noexcept;

  // `reads_per_disk`: how many reads are queued on a disk at once; 2 keep a real disk busy while
  // its driver is told of the first.
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
  Position next_taken_ = 0;
};

}  // namespace vortex::inline v0
