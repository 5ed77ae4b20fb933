// The buffers of disk-striped mergesort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sort/merge/prefetch_policy.h"

namespace vortex { inline namespace v0 {

// Disk-striped mergesort (DSM; Barve and Vitter, section 2.4), the baseline: the D disks are one
// disk with blocks D times as large. Each run has two buffers of D blocks; when the merge has used
// up one, a parallel read of the next D blocks of that run into it starts, while the merge goes on
// with the other. Runs must lie on the disks in a round robin, so that D consecutive blocks are on
// D disks; elsewhere it works, but its reads are not parallel. The order of need tells it no more
// than where the blocks are and in which order the runs need their first ones.
class StripedPrefetch final : public PrefetchPolicy {
 public:
  // 2 D blocks for each of `runs` runs. The comeback of the merge must be at most D blocks.
  static std::size_t minimum_buffers(const PrefetchOptions& options, std::uint32_t runs) noexcept;

  // `runs`: how many runs there are; the order of need numbers them from 0.
  StripedPrefetch(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
                  std::uint32_t runs);

 private:
  struct Run {
    std::vector<Position> blocks;  // of the run, in its order
    std::uint64_t released = 0;    // blocks given back: always the first ones
  };

  PrefetchAction decide() noexcept override;
  void on_released(Position position) noexcept override;
  void plan_stripe(Run& run, std::uint64_t stripe) noexcept;

  std::vector<Run> runs_;
  std::vector<Position> planned_;  // blocks to fetch, in order: room for all that there are
  std::size_t planned_done_ = 0;
};

}}  // namespace vortex::v0
