// Sorts with the vectors of x86-64; use small_sort_for() and quick_sort().
#pragma once

#include <cstddef>
#include <cstdint>

#include "sort/kernels/slice_sort.h"
#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

void small_sort_u64_avx512(const std::uint64_t* in, std::size_t count, std::uint64_t* out) noexcept;
// Of doubles that sort_doubles_avx512() takes.
void small_sort_f64_avx512(const std::uint64_t* in, std::size_t count, std::uint64_t* out) noexcept;
// Of kBlockOfWords<std::uint32_t>, twice kMaxSmallSort, at most.
void small_sort_u32_avx512(const std::uint32_t* in, std::size_t count, std::uint32_t* out) noexcept;
void small_sort_pair64_avx512(const Pair64* in, std::size_t count, Pair64* out) noexcept;
void stable_small_sort_pair64_avx512(const Pair64* in, std::size_t count, Pair64* out) noexcept;

// Which half of pairs is the key, and what encodes it: `always` is added to it without carry, and
// `when_negative` where its highest bit is set.
struct KeysOfPairs {
  int half = 0;
  std::uint64_t always = 0;
  std::uint64_t when_negative = 0;
};
// Sorts 1 to kMaxSmallSort pairs so, stably. Returns false, with nothing written, where keys differ
// in too few of their upper bits.
bool stable_small_sort_halves_avx512(const Pair64* in, std::size_t count, Pair64* out,
                                     const KeysOfPairs& keys) noexcept;

// Sorts kMostBlocks blocks of words at most, where they are. A block is what the base case takes.
inline constexpr std::size_t kMostBlocks = 4;
template <typename Word>
inline constexpr std::size_t kBlockOfWords = kMaxSmallSort * sizeof(std::uint64_t) / sizeof(Word);
void block_sort_avx512(std::uint32_t* words, std::size_t count) noexcept;
void block_sort_avx512(std::uint64_t* words, std::size_t count) noexcept;
// Such words that are the bits of doubles, in the total order of these or the other way round. No
// flag of an exception is left. Returns false, with nothing changed, where one is a NaN, or the
// program treats denormals in a way of its own.
bool sort_doubles_avx512(std::uint64_t* words, std::size_t count, bool descending) noexcept;

// A block of AVX2, of words of any size. All of these take up to kMostBlocks of them.
inline constexpr std::size_t kBlockOfAvx2 = 64;
void small_sort_u64_avx2(const std::uint64_t* in, std::size_t count, std::uint64_t* out) noexcept;
void small_sort_u32_avx2(const std::uint32_t* in, std::size_t count, std::uint32_t* out) noexcept;
bool sort_doubles_avx2(std::uint64_t* words, std::size_t count, bool descending) noexcept;

// quick_sort() with these vectors.
bool quick_sort_avx512(std::uint32_t* words, std::size_t count, int levels,
                       const SliceRoom& room) noexcept;
bool quick_sort_avx512(std::uint64_t* words, std::size_t count, int levels,
                       const SliceRoom& room) noexcept;
bool quick_sort_avx2(std::uint32_t* words, std::size_t count, int levels,
                     const SliceRoom& room) noexcept;
bool quick_sort_avx2(std::uint64_t* words, std::size_t count, int levels,
                     const SliceRoom& room) noexcept;

}}}  // namespace vortex::v0::detail
