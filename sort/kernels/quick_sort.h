// Quicksort of words that the caches hold, with vectors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "sort/kernels/slice_sort.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Of more words, levels of quicksort cost more than those of a radix sort unless many are equal.
inline constexpr std::size_t kMaxQuickWords = std::size_t{1} << 20;

// How often a word may be part of what is cut in two: twice as often as halves take, and some.
constexpr int quick_sort_levels(std::size_t count) noexcept {
  return 2 * static_cast<int>(std::bit_width(count));
}

// Sorts words where they are, in ascending order. Returns false where a radix sort is to do it, and
// the words are in some order: the instructions in use have no such vectors, or the
// parts were so uneven that `levels` did not do. Takes some KiB of the stack. Parts that
// suit slice_sort() are given to it where there is room.
VORTEX_EXPORT bool quick_sort(std::uint32_t* words, std::size_t count, int levels,
                              const SliceRoom& room = {}) noexcept;
VORTEX_EXPORT bool quick_sort(std::uint64_t* words, std::size_t count, int levels,
                              const SliceRoom& room = {}) noexcept;

template <typename Bits>
bool quick_sort(Bits* words, std::size_t count, const SliceRoom& room = {}) noexcept {
  return quick_sort(words, count, quick_sort_levels(count), room);
}

}}}  // namespace vortex::v0::detail
