// Quicksort of words that the caches hold, with the widest vectors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "vortex/version.h"

// Loops in such a function become vectors as wide as those of the sort.
#if defined(__x86_64__)
#define VORTEX_WIDE_LOOPS [[gnu::flatten, gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]]
#else
#define VORTEX_WIDE_LOOPS
#endif

namespace vortex { inline namespace v0 { namespace detail {

// Of more words, levels of quicksort cost more than those of a radix sort, which gains most on long
// words and least on floating-point numbers, since it spreads them unevenly. Words that repeat, as
// those of a Zipf distribution do, leave quicksort parts that end early.
template <typename Bits>
constexpr std::size_t max_quick_words(bool floats = false) noexcept {
  return std::size_t{1} << (sizeof(Bits) == sizeof(std::uint64_t) && !floats ? 14 : 17);
}
inline constexpr std::size_t kMaxQuickRepeatedWords = std::size_t{1} << 20;

// How often a word may be part of what is cut in two: twice as often as halves take, and some.
constexpr int quick_sort_levels(std::size_t count) noexcept {
  return 2 * static_cast<int>(std::bit_width(count));
}

// Sorts words where they are, in ascending order. Returns false where a radix sort is to do it, and
// the words are in some order: the instructions in use have no vectors that are wide enough, or the
// parts were so uneven that `levels` did not do. Takes some KiB of the stack.
VORTEX_EXPORT bool quick_sort(std::uint32_t* words, std::size_t count, int levels) noexcept;
VORTEX_EXPORT bool quick_sort(std::uint64_t* words, std::size_t count, int levels) noexcept;

template <typename Bits>
bool quick_sort(Bits* words, std::size_t count) noexcept {
  return quick_sort(words, count, quick_sort_levels(count));
}

// The same for words that a codec makes such as have this order, where isa_in_use() is kAvx512.
template <typename Bits, typename Codec>
VORTEX_WIDE_LOOPS bool quick_sort(Bits* words, std::size_t count, const Codec& codec) noexcept {
  codec.encode(words, count);
  const bool sorted = quick_sort(words, count);
  codec.decode(words, count);
  return sorted;
}

}}}  // namespace vortex::v0::detail
