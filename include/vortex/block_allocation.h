// Which disk holds which block of a sequence.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace vortex::inline v0 {

// How the blocks of a sequence are spread over the disks. The names are those of the options and of
// the papers: SRM is Barve and Vitter, section 3; random cyclic allocation is SPAA, section 2.4.
enum class AllocationStrategy {
  kStriping,          // round robin from the first disk on
  kSimpleRandomized,  // round robin from a random disk on (SRM)
  kRandomCyclic,      // round robin through a random permutation of the disks
  kFullyRandom,       // every block on a disk of its own choosing
};

// "striping", "simple_randomized", "random_cyclic", "fully_random".
std::string_view allocation_strategy_name(AllocationStrategy strategy) noexcept;

// Throws Error (EINVAL) with the names there are.
AllocationStrategy parse_allocation_strategy(std::string_view name);

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
class BlockAllocation {
 public:
  // `sequence` tells the sequences of one seed apart: each run of a sort has its own number, and so
  // its own random choices. Throws Error (EINVAL) when no weight is positive or one is negative.
  BlockAllocation(AllocationStrategy strategy, const std::vector<double>& weights,
                  std::uint64_t seed, std::uint64_t sequence);

  unsigned disk(std::uint64_t block) const noexcept;

  AllocationStrategy strategy() const noexcept { return strategy_; }

  // Blocks after which a round robin repeats; 0 for kFullyRandom.
  std::uint64_t period() const noexcept { return cycle_.size(); }

 private:
  AllocationStrategy strategy_;
  std::uint64_t random_ = 0;        // of this sequence
  std::uint64_t first_slot_ = 0;    // where the round robin starts
  std::vector<unsigned> cycle_;     // the disk of each slot
  std::vector<double> cumulative_;  // kFullyRandom: the weights' running sums
};

}  // namespace vortex::inline v0
