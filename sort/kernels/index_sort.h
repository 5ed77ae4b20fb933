// Sorting leading bits of keys, alone or with their records' indices, in memory that is given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/detail/array/small_sort.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// The most that these sort at once.
inline constexpr std::size_t kMaxIndexPairs = std::size_t{1} << 31;

// Sorts pairs[0..count) by their keys; pairs with equal keys end up in any order. `spare` is room
// for as many pairs, or null: slower then. Allocates nothing; at most 300 KiB of stack.
VORTEX_EXPORT void sort_index_pairs(Pair64* pairs, std::size_t count, Pair64* spare) noexcept;
// The same with keys alone.
VORTEX_EXPORT void sort_bits(std::uint64_t* bits, std::size_t count, std::uint64_t* spare) noexcept;

}}  // namespace vortex::v0
