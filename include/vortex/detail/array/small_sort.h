// The base case: up to 128 records, sorted in registers where the processor has wide ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/detail/array/cpu.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 { namespace detail {

inline constexpr std::size_t kMaxSmallSort = 128;

// Sorts `count` <= kMaxSmallSort records of `in` to `out`, which may be the same place but not
// overlap otherwise. Ascending by the unsigned key; records with equal keys in any order. Reads
// nothing beyond in[count], writes nothing beyond out[count]. Does not allocate.
template <typename Record>
using SmallSort = void (*)(const Record* in, std::size_t count, Record* out) noexcept;

// The kernel for the instructions at hand; Record is uint32_t, uint64_t or Pair64.
template <typename Record>
SmallSort<Record> small_sort_for(Isa isa) noexcept;

template <>
VORTEX_EXPORT SmallSort<std::uint32_t> small_sort_for<std::uint32_t>(Isa isa) noexcept;
template <>
VORTEX_EXPORT SmallSort<std::uint64_t> small_sort_for<std::uint64_t>(Isa isa) noexcept;
template <>
VORTEX_EXPORT SmallSort<Pair64> small_sort_for<Pair64>(Isa isa) noexcept;

// One that keeps the order of pairs with equal keys.
VORTEX_EXPORT SmallSort<Pair64> stable_small_sort_of_pairs(Isa isa) noexcept;

}}}  // namespace vortex::v0::detail
