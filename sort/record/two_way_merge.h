// Merges of two sorted arrays that the caches hold, without a branch for each record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/record/key.h"

namespace vortex { inline namespace v0 {

// Merges two sorted arrays to `out`, which overlaps neither of them; of equal keys those of `a`
// come first. Reads and writes nothing beyond. Takes less than a KiB of stack; allocates nothing.
template <typename Item>
using TwoWayMerge = void (*)(std::span<const Item> a, std::span<const Item> b, Item* out) noexcept;

// For the instructions at hand: of words, and of pairs by their keys.
template <typename Item>
TwoWayMerge<Item> two_way_merge_for(detail::Isa isa) noexcept;
template <>
TwoWayMerge<std::uint64_t> two_way_merge_for<std::uint64_t>(detail::Isa isa) noexcept;
template <>
TwoWayMerge<Pair64> two_way_merge_for<Pair64>(detail::Isa isa) noexcept;

}}  // namespace vortex::v0
