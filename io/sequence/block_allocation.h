// Which disk holds which block of a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "vortex/disk.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// The disk of every block of one sequence, a pure function of what the constructor is given:
// whoever reads the sequence later makes the same object instead of keeping a table.
//
// Disks may be unequal: a disk's share of the blocks is its weight (bandwidth, free space) over the
// sum of the weights, and weight 0 leaves the disk out. The three round robins go through a cycle
// of slots in which a disk appears as often as its weight, in 32nds of the largest, asks for,
// spread as evenly as possible; with equal weights the cycle is one slot a disk, and any D
// consecutive blocks lie on D different disks. kFullyRandom keeps to the exact weights.
//
// Immutable, so thread-safe; disk() does not allocate.
class VORTEX_EXPORT BlockAllocation {
 public:
  // `sequence` tells the sequences of one seed apart: each run of a sort has its own number, and so
  // its own random choices. Throws Error (EINVAL) when no weight is positive or one is negative.
  BlockAllocation(AllocationStrategy strategy, const std::vector<double>& weights,
                  std::uint64_t seed, std::uint64_t sequence);

  unsigned disk(std::uint64_t block) const noexcept;

  // Blocks after which a round robin repeats; 0 for kFullyRandom.
  std::uint64_t period() const noexcept { return cycle_.size(); }

 private:
  std::uint64_t random_ = 0;        // of this sequence
  std::uint64_t first_slot_ = 0;    // where the round robin starts
  std::vector<unsigned> cycle_;     // the disk of each slot
  std::vector<double> cumulative_;  // kFullyRandom: the weights' running sums
};

// As stripe_weights(), but where the disks have too little room together, each gets what it has.
VORTEX_EXPORT std::vector<double> shares_that_fit(const std::vector<double>& bytes_per_s,
                                                  const std::vector<std::uint64_t>& free_bytes,
                                                  std::uint64_t total_bytes);

}}  // namespace vortex::v0
