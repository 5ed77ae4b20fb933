// In-place radix sort of a vanishing array (section 5 of the Vortex paper).
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/vanishing_array.h"

namespace vortex {

struct RadixSortOptions {
  int first_split_bits = 0;  // 1 to 8: 2^b buckets on the first level; 0: by plan_splits()
};

struct RadixSortReport {
  int first_split_bits = 0;     // 0: the array was in order, or too small or too uneven for buckets
  std::size_t peak_blocks = 0;  // of the pool, while it ran
  std::size_t scratch_bytes = 0;  // besides the pool
};

// How many blocks beyond those of the array the pool must have for an array of `bytes` bytes: one
// for each bucket's partly filled block, and as many as the largest bucket that is sorted out of
// its stream.
std::size_t radix_sort_extra_blocks(std::uint64_t bytes, std::size_t block_bytes, int split_bits);

// Sorts the first size() elements ascending. The first level reads the array while its memory flows
// away into 2^b bucket streams of the same pool; each bucket is then sorted through a scratch of
// its size and the result flows back into the array. Keys that a sample finds too uneven for that
// are sorted by moving chunks within the array (sort.h) instead, and so is an array whose pool has
// no blocks to spare.
//
// Throws Error when the system refuses to move a block or std::bad_alloc. The array then holds its
// elements in some order: after a refusal everything is brought back, repeating refused moves for a
// while. Only if the system goes on refusing does the error say that elements are missing.
RadixSortReport radix_sort(VanishingArray<std::uint64_t>& array, RadixSortOptions options = {});

}  // namespace vortex
