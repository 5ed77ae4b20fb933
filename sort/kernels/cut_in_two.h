// Quicksort of words in the caches: vectors of them are cut in two by one permutation or two, which
// leaves the base case fewer cycles a word and level than counting and scattering do.
//
// Partitioning in place from both ends, so many vectors ahead that no store meets what has not been
// read, is the plan of Bramas (A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512 on Intel
// Skylake, 2017). Words are compressed in registers: compressing to memory is slow on AMD's Zen 4.
//
// Included once for each instruction set, after its lanes. `Cut` supplies, for words of one size:
//   Bits, Vector, kLanes
//   kBlock                            as many words as the base case takes
//   sort_blocks(words, count)         sorts up to kMostBlocks times as many
//   load(at)                          a register of words
//   all(word)                         a pivot in all lanes
//   cut(v, pivot, gap)                the lanes that are not greater to the begin of a gap, the
//                                     others to its end. It has room for two registers, or for one
//                                     that fills it
//   lower(v, pivot)                   a mask of the lanes that are not greater, with kBitsOfLane
//                                     bits for each
//   store_some(v, wanted, at)         the lanes of a mask, one after the other
//   gather(words, apart)              words that lie so far apart
//   middle(a, b, c)                   of each three lanes the middle one
//   middle_of_lanes(v)                a word near the middle of them

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sort/kernels/slice_sort.h"
#include "sort/kernels/vector_sorts.h"
#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail { namespace {

// Which lane goes to lane l, in kBits bits from l * kBits on: first those with a bit in the
// mask, then the others.
template <typename Order, int kBits>
constexpr std::array<Order, 256> kLowerFirst = [] {
  std::array<Order, 256> orders{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    int to = 0;
    for (const unsigned wanted : {1u, 0u}) {
      for (unsigned lane = 0; lane < 8; ++lane) {
        if ((mask >> lane & 1) == wanted) orders[mask] |= Order{lane} << kBits * to++;
      }
    }
  }
  return orders;
}();

// What lies between two parts that grow towards each other.
template <typename Bits>
struct Gap {
  Bits* begin;
  std::size_t words;

  Bits* end() const noexcept { return begin + words; }
  // So many words come out of it, `lower` of them at its begin, the others at its end.
  void shrink(std::size_t count, int lower) noexcept {
    begin += lower;
    words -= count;
  }
};

// First the lanes of 32 bits with a bit in `lower`, then the others.
VORTEX_NETWORK_TARGET __m256i lower_first(__m256i v, unsigned lower) noexcept {
  const __m256i order = _mm256_set1_epi32(static_cast<int>(kLowerFirst<std::uint32_t, 4>[lower]));
  return _mm256_permutevar8x32_epi32(
      v, _mm256_srlv_epi32(order, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)));
}

// Cuts the first `count` lanes alone, for which there may be no more room than they take.
template <typename Cut>
VORTEX_NETWORK_TARGET void cut_some(typename Cut::Vector v, std::size_t count,
                                    typename Cut::Vector pivot,
                                    Gap<typename Cut::Bits>& gap) noexcept {
  const unsigned valid = (1u << Cut::kBitsOfLane * count) - 1;
  const unsigned lower = Cut::lower(v, pivot) & valid;
  Cut::store_some(v, lower, gap.begin);
  gap.shrink(count, __builtin_popcount(lower) / static_cast<int>(Cut::kBitsOfLane));
  Cut::store_some(v, lower ^ valid, gap.end());
}

// Brings the words that are not above the pivot to the front, and returns how many they are. There
// are more than kMaxSmallSort words.
template <typename Cut>
VORTEX_NETWORK_TARGET std::size_t partition(typename Cut::Bits* words, std::size_t count,
                                            typename Cut::Bits pivot_word) noexcept {
  using Bits = typename Cut::Bits;
  constexpr std::size_t kLanes = Cut::kLanes, kAtOnce = 4, kStep = kAtOnce * kLanes;
  static_assert(2 * kStep <= kMaxSmallSort);
  const typename Cut::Vector pivot = Cut::all(pivot_word);
  // What does not fill a step is put aside, and the room that it leaves is filled last.
  const std::size_t rest = count % kStep;
  typename Cut::Vector aside[kAtOnce];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) aside[i] = Cut::load(words + i * kLanes);
  const Bits* low = words + rest;
  const Bits* high = words + count;
  typename Cut::Vector first[kAtOnce], last[kAtOnce];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    first[i] = Cut::load(low + i * kLanes);
    last[i] = Cut::load(high - (i + 1) * kLanes);
  }
  low += kStep;
  high -= kStep;
  Gap<Bits> gap{words, count};
  // Two steps are in registers, so that there is room for one on the side that is not read from; on
  // the other side, what is read makes it.
  while (low != high) {
    // Nobody foresees which side: no branch.
    const bool lower = low - gap.begin <= gap.end() - high;
    const Bits* const from = lower ? low : high - kStep;
    low += lower ? kStep : 0;
    high -= lower ? 0 : kStep;
    typename Cut::Vector step[kAtOnce];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAtOnce; ++i) step[i] = Cut::load(from + i * kLanes);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAtOnce; ++i) Cut::cut(step[i], pivot, gap);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) Cut::cut(first[i], pivot, gap);
#pragma GCC unroll 4
  for (std::size_t i = 0; i + 1 < kAtOnce; ++i) Cut::cut(last[i], pivot, gap);
  // From here on two vectors that are stored whole could meet.
  cut_some<Cut>(last[kAtOnce - 1], kLanes, pivot, gap);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    if (i * kLanes < rest) cut_some<Cut>(aside[i], std::min(rest - i * kLanes, kLanes), pivot, gap);
  }
  return static_cast<std::size_t>(gap.begin - words);
}

// Near the middle of some words, which lie evenly spread. Few words are not worth sorting a sample:
// that is three vectors of them, of each three lanes the middle one, and so on.
template <typename Cut>
VORTEX_NETWORK_TARGET typename Cut::Bits middle_of_sample(const typename Cut::Bits* words,
                                                          std::size_t count) noexcept {
  constexpr std::size_t kMany = 2048, kSample = 64;
  if (count < kMany) {
    const std::size_t apart = count / Cut::kLanes, third = apart / 3;
    return Cut::middle_of_lanes(Cut::middle(Cut::gather(words, apart),
                                            Cut::gather(words + third, apart),
                                            Cut::gather(words + 2 * third, apart)));
  }
  typename Cut::Bits sample[kSample];
  const std::size_t apart = count / kSample;
  for (std::size_t i = 0; i < kSample; ++i) sample[i] = words[i * apart + apart / 2];
  Cut::sort_blocks(sample, kSample);
  return sample[kSample / 2 - 1];
}

// False, and the words are in some order, when their parts were so uneven that `levels` did not do.
// Calls itself for the smaller part.
template <typename Cut>
VORTEX_KERNEL bool sort_by_cuts(typename Cut::Bits* words, std::size_t count, int levels,
                                SliceRoom room) noexcept {
  // Four blocks cost less than cuts where they are full, as parts are not.
  while (count > 2 * Cut::kBlock) {
    if (room.memory != nullptr && count >= least_words_to_slice<typename Cut::Bits>() &&
        count <= most_words_to_slice()) {
      if (slice_sort(words, count, room)) return true;
      // Few that are unevenly spread are rarely better in their parts.
      if (count < 4 * kMinSliced) room.memory = nullptr;
    }
    if (levels-- == 0) return false;
    const auto pivot = middle_of_sample<Cut>(words, count);
    std::size_t lower = partition<Cut>(words, count, pivot);
    if (lower == count) {
      // The pivot is the greatest word: the others are below it.
      if (pivot == 0) return true;
      count = partition<Cut>(words, count, pivot - 1);
      continue;
    }
    const std::size_t upper = count - lower;
    if (lower < upper) {
      if (!sort_by_cuts<Cut>(words, lower, levels, room)) return false;
      words += lower;
      count = upper;
    } else {
      if (!sort_by_cuts<Cut>(words + lower, upper, levels, room)) return false;
      count = lower;
    }
  }
  Cut::sort_blocks(words, count);
  return true;
}

template <typename Cut>
VORTEX_KERNEL bool sort_by_blocks_or_cuts(typename Cut::Bits* words, std::size_t count, int levels,
                                          const SliceRoom& room) noexcept {
  if (count > kMostBlocks * Cut::kBlock) return sort_by_cuts<Cut>(words, count, levels, room);
  Cut::sort_blocks(words, count);
  return true;
}

}}}}  // namespace vortex::v0::detail::(anonymous)
