// How many buffers a merge needs, and how it splits those it has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vortex { inline namespace v0 {

// The number of blocks for which the optimal prefetch order is computed, out of the `read_buffers`
// (r) beyond those that the merge holds; the rest are overlap buffers. w = 2D + 0.3 (r - 2D) (SPAA,
// section 5), or all of them when there are no more than 2D; at least 1.
std::size_t default_prefetch_blocks(std::size_t read_buffers, unsigned disks) noexcept;

// The number of blocks for writing, out of `buffers` (t) for reading ahead and for writing
// together: max(t / 4, 2D) (SPAA, section 5), at most all but one, at least 1 when there are 2.
std::size_t default_write_blocks(std::size_t buffers, unsigned disks) noexcept;

// Half the largest power of two at which `memory_bytes` still hold a block of each of `runs` runs
// and the least number of buffers beside them, 2D for reading and 2D for writing (SPAA, section 5).
std::uint64_t default_merge_block_bytes(std::uint64_t memory_bytes, std::uint64_t runs,
                                        unsigned disks) noexcept;

// Merge passes that `runs` runs need when `merge_order` (at least 2) of them are merged at a time.
unsigned merge_passes(std::uint64_t runs, std::uint64_t merge_order) noexcept;

// The smallest merge order that needs no more passes than `largest_order` (at least 2) does: fewer
// runs at a time make fewer seeks and leave more buffers for each (Barve and Vitter,
// section 5.3.2).
std::uint64_t smallest_merge_order(std::uint64_t runs, std::uint64_t largest_order) noexcept;

// A merge pass that leaves as many runs as the passes behind it can take. Runs that need not be
// merged for that are left alone.
struct MergePass {
  std::uint64_t merged = 0;  // runs, neighbours all of them
  std::uint64_t groups = 0;  // of those, each merged to one run; their sizes differ by one at most
};

// The next pass on the way from `runs` runs to `most` (at least 1, and less than `runs`) with
// merges of at most `largest_order` (at least 2) runs: of the ways that take the fewest passes, one
// that merges the fewest runs. All passes behind it merge everything.
MergePass next_merge_pass(std::uint64_t runs, std::uint64_t most,
                          std::uint64_t largest_order) noexcept;

// What such passes take, until `most` runs are left.
struct MergeCost {
  unsigned passes = 0;
  std::uint64_t merged = 0;  // runs as long as the first ones, each as often as a pass merges it
};
MergeCost cost_of_passes(std::uint64_t runs, std::uint64_t most,
                         std::uint64_t largest_order) noexcept;

}}  // namespace vortex::v0
