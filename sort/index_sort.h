// Sorting pairs of leading key bits and a record's index, in memory that is given.
#pragma once

#include <cstddef>

#include "sort/small_sort.h"

namespace vortex {

// The most pairs that sort_index_pairs() takes.
inline constexpr std::size_t kMostIndexPairs = std::size_t{1} << 31;

// Sorts pairs[0..count) by their keys; pairs with equal keys end up in any order. `spare` is room
// for as many pairs, or null: slower then. Allocates nothing; at most 300 KiB of stack.
void sort_index_pairs(Pair64* pairs, std::size_t count, Pair64* spare) noexcept;

}  // namespace vortex
