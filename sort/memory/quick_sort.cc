// Quicksort of words in the caches with AVX-512: vectors of them are cut in two by one permutation
// or two, which leaves the base case fewer cycles a word and level than counting and scattering do.
//
// Partitioning in place from both ends, so many vectors ahead that no store meets what has not been
// read, is the plan of Bramas (A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512 on Intel
// Skylake, 2017). Words are compressed in registers: compressing to memory is slow on AMD's Zen 4.
#include "sort/memory/quick_sort.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sort/memory/avx512_lanes.h"
#include "sort/memory/small_sort_avx512.h"
#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

#if defined(__x86_64__)

namespace {

// Byte l of order m tells which lane goes to lane l: first those without a bit in m, then the
// others.
constexpr std::array<std::uint64_t, 256> kLowerFirst = [] {
  std::array<std::uint64_t, 256> orders{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    int to = 0;
    for (const unsigned wanted : {0u, 1u}) {
      for (unsigned lane = 0; lane < 8; ++lane) {
        if ((mask >> lane & 1) == wanted) orders[mask] |= std::uint64_t{lane} << 8 * to++;
      }
    }
  }
  return orders;
}();

struct CutU64 {
  using Bits = std::uint64_t;
  static constexpr std::size_t kLanes = 8;

  VORTEX_NETWORK_TARGET static __m512i all(Bits word) noexcept {
    return _mm512_set1_epi64(static_cast<long long>(word));
  }
  // Which lanes are greater.
  VORTEX_NETWORK_TARGET static unsigned above(__m512i v, __m512i pivot) noexcept {
    return _mm512_cmpgt_epu64_mask(v, pivot);
  }
  // The other lanes to `left`, those to where `right` ends. Both have room for a vector.
  VORTEX_NETWORK_TARGET static void store(__m512i v, unsigned above, Bits* left,
                                          Bits* right) noexcept {
    const __m128i order =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kLowerFirst.data() + above));
    const __m512i cut = _mm512_permutexvar_epi64(_mm512_cvtepu8_epi64(order), v);
    _mm512_storeu_si512(left, cut);
    _mm512_storeu_si512(right - kLanes, cut);
  }
  // The lanes with bits in `wanted`, to `at`.
  VORTEX_NETWORK_TARGET static void store_some(__m512i v, unsigned wanted, Bits* at) noexcept {
    const __m512i some = _mm512_maskz_compress_epi64(static_cast<__mmask8>(wanted), v);
    const auto size = static_cast<unsigned>(__builtin_popcount(wanted));
    _mm512_mask_storeu_epi64(at, static_cast<__mmask8>((1u << size) - 1), some);
  }
};

struct CutU32 {
  using Bits = std::uint32_t;
  static constexpr std::size_t kLanes = 16;

  VORTEX_NETWORK_TARGET static __m512i all(Bits word) noexcept {
    return _mm512_set1_epi32(static_cast<int>(word));
  }
  VORTEX_NETWORK_TARGET static unsigned above(__m512i v, __m512i pivot) noexcept {
    return _mm512_cmpgt_epu32_mask(v, pivot);
  }
  VORTEX_NETWORK_TARGET static void store(__m512i v, unsigned above, Bits* left,
                                          Bits* right) noexcept {
    _mm512_storeu_si512(left, _mm512_maskz_compress_epi32(static_cast<__mmask16>(~above), v));
    store_some(v, above, right - __builtin_popcount(above));
  }
  VORTEX_NETWORK_TARGET static void store_some(__m512i v, unsigned wanted, Bits* at) noexcept {
    const __m512i some = _mm512_maskz_compress_epi32(static_cast<__mmask16>(wanted), v);
    const auto size = static_cast<unsigned>(__builtin_popcount(wanted));
    _mm512_mask_storeu_epi32(at, static_cast<__mmask16>((1u << size) - 1), some);
  }
};

// Where the two parts end that grow towards each other.
template <typename Cut>
struct Parts {
  using Bits = typename Cut::Bits;
  Bits* left;
  Bits* right;

  VORTEX_NETWORK_TARGET void add(__m512i v, __m512i pivot) noexcept {
    const unsigned above = Cut::above(v, pivot);
    Cut::store(v, above, left, right);
    const auto size = static_cast<std::size_t>(__builtin_popcount(above));
    left += Cut::kLanes - size;
    right -= size;
  }
  // The first `count` lanes alone, for which there may be no more room than they take.
  VORTEX_NETWORK_TARGET void add_some(__m512i v, std::size_t count, __m512i pivot) noexcept {
    const unsigned valid = (1u << count) - 1;
    const unsigned above = Cut::above(v, pivot) & valid, others = above ^ valid;
    Cut::store_some(v, others, left);
    left += __builtin_popcount(others);
    right -= __builtin_popcount(above);
    Cut::store_some(v, above, right);
  }
};

// Brings the words that are not above the pivot to the front, and returns how many they are. There
// are more than kMaxSmallSort words.
template <typename Cut>
VORTEX_NETWORK_TARGET std::size_t partition(typename Cut::Bits* words, std::size_t count,
                                            typename Cut::Bits pivot_word) noexcept {
  using Bits = typename Cut::Bits;
  constexpr std::size_t kLanes = Cut::kLanes, kAtOnce = 4, kStep = kAtOnce * kLanes;
  static_assert(2 * kStep <= kMaxSmallSort);
  const __m512i pivot = Cut::all(pivot_word);
  // What does not fill a step is put aside, and the room that it leaves is filled last.
  const std::size_t rest = count % kStep;
  __m512i aside[kAtOnce];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) aside[i] = _mm512_loadu_si512(words + i * kLanes);
  const Bits* low = words + rest;
  const Bits* high = words + count;
  __m512i first[kAtOnce], last[kAtOnce];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    first[i] = _mm512_loadu_si512(low + i * kLanes);
    last[i] = _mm512_loadu_si512(high - (i + 1) * kLanes);
  }
  low += kStep;
  high -= kStep;
  Parts<Cut> parts{words, words + count};
  // Two steps are in registers, so that there is room for one on the side that is not read from; on
  // the other side, what is read makes it.
  while (low != high) {
    // Nobody foresees which side: no branch.
    const bool lower = low - parts.left <= parts.right - high;
    const Bits* const from = lower ? low : high - kStep;
    low += lower ? kStep : 0;
    high -= lower ? 0 : kStep;
    __m512i step[kAtOnce];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAtOnce; ++i) step[i] = _mm512_loadu_si512(from + i * kLanes);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAtOnce; ++i) parts.add(step[i], pivot);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) parts.add(first[i], pivot);
#pragma GCC unroll 4
  for (std::size_t i = 0; i + 1 < kAtOnce; ++i) parts.add(last[i], pivot);
  // From here on two vectors that are stored whole could meet.
  parts.add_some(last[kAtOnce - 1], kLanes, pivot);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    if (i * kLanes < rest) parts.add_some(aside[i], std::min(rest - i * kLanes, kLanes), pivot);
  }
  return static_cast<std::size_t>(parts.left - words);
}

// Of some words, evenly spread.
template <typename Bits>
Bits middle_of_sample(const Bits* words, std::size_t count, SmallSort<Bits> sort_few) noexcept {
  constexpr std::size_t kMany = 1024, kMost = 64;
  const std::size_t size = count < kMany ? kMost / 2 : kMost;
  Bits sample[kMost];
  const std::size_t apart = count / size;
  for (std::size_t i = 0; i < size; ++i) sample[i] = words[i * apart + apart / 2];
  sort_few(sample, size, sample);
  return sample[size / 2 - 1];
}

// False, and the words are in some order, when their parts were so uneven that `levels` did not do.
// Calls itself for the smaller part.
template <typename Cut>
VORTEX_AVX512 bool quick_sort(typename Cut::Bits* words, std::size_t count, int levels,
                              SmallSort<typename Cut::Bits> sort_few) noexcept {
  while (count > kMaxSmallSort) {
    if (levels-- == 0) return false;
    const auto pivot = middle_of_sample(words, count, sort_few);
    std::size_t lower = partition<Cut>(words, count, pivot);
    if (lower == count) {
      // The pivot is the greatest word: the others are below it.
      if (pivot == 0) return true;
      count = partition<Cut>(words, count, pivot - 1);
      continue;
    }
    const std::size_t upper = count - lower;
    if (lower < upper) {
      if (!quick_sort<Cut>(words, lower, levels, sort_few)) return false;
      words += lower;
      count = upper;
    } else {
      if (!quick_sort<Cut>(words + lower, upper, levels, sort_few)) return false;
      count = lower;
    }
  }
  sort_few(words, count, words);
  return true;
}

}  // namespace

bool quick_sort(std::uint32_t* words, std::size_t count, int levels) noexcept {
  if (isa_in_use() != Isa::kAvx512) return false;
  return quick_sort<CutU32>(words, count, levels, &small_sort_u32_avx512);
}
bool quick_sort(std::uint64_t* words, std::size_t count, int levels) noexcept {
  if (isa_in_use() != Isa::kAvx512) return false;
  return quick_sort<CutU64>(words, count, levels, &small_sort_u64_avx512);
}

#else

bool quick_sort(std::uint32_t*, std::size_t, int) noexcept { return false; }
bool quick_sort(std::uint64_t*, std::size_t, int) noexcept { return false; }

#endif

}}}  // namespace vortex::v0::detail
