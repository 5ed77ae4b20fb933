// Quicksort of words in the caches with AVX-512: vectors of them are cut in two by one permutation
// or two, which leaves the base case fewer cycles a word and level than counting and scattering do.
//
// Partitioning in place from both ends, so many vectors ahead that no store meets what has not been
// read, is the plan of Bramas (A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512 on Intel
// Skylake, 2017). Words are compressed in registers: compressing to memory is slow on AMD's Zen 4.
#include "sort/kernels/quick_sort.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "sort/kernels/avx512_lanes.h"
#include "sort/kernels/small_sort_avx512.h"
#include "vortex/detail/array/small_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

#if defined(__x86_64__)

namespace {

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
  // So many words come out of it, the lanes with bits in `lower` at its begin, the others at its
  // end.
  void shrink(std::size_t count, unsigned lower) noexcept {
    begin += __builtin_popcount(lower);
    words -= count;
  }
};

// Eight lanes at a time, since there are as many orders as a table of few cache lines holds. A
// permutation looks at the lowest bits of its lanes alone, so that one shift makes it of an order.
struct CutU64 {
  using Bits = std::uint64_t;
  static constexpr std::size_t kLanes = 8;

  VORTEX_NETWORK_TARGET static __m512i all(Bits word) noexcept {
    return _mm512_set1_epi64(static_cast<long long>(word));
  }
  // Which lanes are not greater.
  VORTEX_NETWORK_TARGET static unsigned lower(__m512i v, __m512i pivot) noexcept {
    return _mm512_cmple_epu64_mask(v, pivot);
  }
  // The lanes with bits in `lower` to the begin of a gap, the others to its end. It has room for
  // two vectors, or for one that fills it.
  VORTEX_NETWORK_TARGET static void cut(__m512i v, unsigned lower, Gap<Bits>& gap) noexcept {
    const __m512i order =
        _mm512_set1_epi64(static_cast<long long>(kLowerFirst<std::uint64_t, 8>[lower]));
    const __m512i lanes = _mm512_srlv_epi64(order, _mm512_setr_epi64(0, 8, 16, 24, 32, 40, 48, 56));
    const __m512i cut = _mm512_permutexvar_epi64(lanes, v);
    _mm512_storeu_si512(gap.begin, cut);
    _mm512_storeu_si512(gap.end() - kLanes, cut);
    gap.shrink(kLanes, lower);
  }
  // The lanes with bits in `wanted`, to `at`.
  VORTEX_NETWORK_TARGET static void store_some(__m512i v, unsigned wanted, Bits* at) noexcept {
    const __m512i some = _mm512_maskz_compress_epi64(static_cast<__mmask8>(wanted), v);
    const auto size = static_cast<unsigned>(__builtin_popcount(wanted));
    _mm512_mask_storeu_epi64(at, static_cast<__mmask8>((1u << size) - 1), some);
  }
  // Words that lie `apart`.
  VORTEX_NETWORK_TARGET static __m512i gather(const Bits* words, std::size_t apart) noexcept {
    const __m512i places = _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
                                              _mm512_set1_epi64(static_cast<long long>(apart)));
    return _mm512_i64gather_epi64(places, words, 8);
  }
  VORTEX_NETWORK_TARGET static __m512i middle(__m512i a, __m512i b, __m512i c) noexcept {
    const __m512i low = _mm512_min_epu64(a, b), high = _mm512_max_epu64(a, b);
    return _mm512_max_epu64(low, _mm512_min_epu64(high, c));
  }
  VORTEX_NETWORK_TARGET static Bits middle_of_lanes(__m512i v) noexcept {
    v = middle(v, _mm512_alignr_epi64(v, v, 3), _mm512_alignr_epi64(v, v, 6));
    v = middle(v, _mm512_alignr_epi64(v, v, 1), _mm512_alignr_epi64(v, v, 2));
    return static_cast<Bits>(_mm_cvtsi128_si64(_mm512_castsi512_si128(v)));
  }
};

struct CutU32 {
  using Bits = std::uint32_t;
  static constexpr std::size_t kLanes = 16;

  VORTEX_NETWORK_TARGET static __m512i all(Bits word) noexcept {
    return _mm512_set1_epi32(static_cast<int>(word));
  }
  VORTEX_NETWORK_TARGET static unsigned lower(__m512i v, __m512i pivot) noexcept {
    return _mm512_cmple_epu32_mask(v, pivot);
  }
  VORTEX_NETWORK_TARGET static void cut(__m512i v, unsigned lower, Gap<Bits>& gap) noexcept {
    cut_half(_mm512_castsi512_si256(v), lower & 0xff, gap);
    cut_half(_mm512_extracti64x4_epi64(v, 1), lower >> 8, gap);
  }
  VORTEX_NETWORK_TARGET static void store_some(__m512i v, unsigned wanted, Bits* at) noexcept {
    const __m512i some = _mm512_maskz_compress_epi32(static_cast<__mmask16>(wanted), v);
    const auto size = static_cast<unsigned>(__builtin_popcount(wanted));
    _mm512_mask_storeu_epi32(at, static_cast<__mmask16>((1u << size) - 1), some);
  }
  VORTEX_NETWORK_TARGET static __m512i gather(const Bits* words, std::size_t apart) noexcept {
    const __m512i places =
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32(static_cast<int>(apart)));
    return _mm512_i32gather_epi32(places, words, 4);
  }
  VORTEX_NETWORK_TARGET static __m512i middle(__m512i a, __m512i b, __m512i c) noexcept {
    const __m512i low = _mm512_min_epu32(a, b), high = _mm512_max_epu32(a, b);
    return _mm512_max_epu32(low, _mm512_min_epu32(high, c));
  }
  VORTEX_NETWORK_TARGET static Bits middle_of_lanes(__m512i v) noexcept {
    v = middle(v, _mm512_alignr_epi32(v, v, 5), _mm512_alignr_epi32(v, v, 10));
    v = middle(v, _mm512_alignr_epi32(v, v, 1), _mm512_alignr_epi32(v, v, 2));
    return static_cast<Bits>(_mm_cvtsi128_si32(_mm512_castsi512_si128(v)));
  }

 private:
  VORTEX_NETWORK_TARGET static void cut_half(__m256i v, unsigned lower, Gap<Bits>& gap) noexcept {
    const __m256i order = _mm256_set1_epi32(static_cast<int>(kLowerFirst<std::uint32_t, 4>[lower]));
    const __m256i lanes = _mm256_srlv_epi32(order, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i cut = _mm256_permutevar8x32_epi32(v, lanes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(gap.begin), cut);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(gap.end() - kLanes / 2), cut);
    gap.shrink(kLanes / 2, lower);
  }
};

template <typename Cut>
VORTEX_NETWORK_TARGET void cut(__m512i v, __m512i pivot, Gap<typename Cut::Bits>& gap) noexcept {
  Cut::cut(v, Cut::lower(v, pivot), gap);
}
// The first `count` lanes alone, for which there may be no more room than they take.
template <typename Cut>
VORTEX_NETWORK_TARGET void cut_some(__m512i v, std::size_t count, __m512i pivot,
                                    Gap<typename Cut::Bits>& gap) noexcept {
  const unsigned valid = (1u << count) - 1;
  const unsigned lower = Cut::lower(v, pivot) & valid;
  Cut::store_some(v, lower, gap.begin);
  gap.shrink(count, lower);
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
  Gap<Bits> gap{words, count};
  // Two steps are in registers, so that there is room for one on the side that is not read from; on
  // the other side, what is read makes it.
  while (low != high) {
    // Nobody foresees which side: no branch.
    const bool lower = low - gap.begin <= gap.end() - high;
    const Bits* const from = lower ? low : high - kStep;
    low += lower ? kStep : 0;
    high -= lower ? 0 : kStep;
    __m512i step[kAtOnce];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAtOnce; ++i) step[i] = _mm512_loadu_si512(from + i * kLanes);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kAtOnce; ++i) cut<Cut>(step[i], pivot, gap);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kAtOnce; ++i) cut<Cut>(first[i], pivot, gap);
#pragma GCC unroll 4
  for (std::size_t i = 0; i + 1 < kAtOnce; ++i) cut<Cut>(last[i], pivot, gap);
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
VORTEX_NETWORK_TARGET typename Cut::Bits middle_of_sample(
    const typename Cut::Bits* words, std::size_t count,
    SmallSort<typename Cut::Bits> sort_few) noexcept {
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
  sort_few(sample, kSample, sample);
  return sample[kSample / 2 - 1];
}

// False, and the words are in some order, when their parts were so uneven that `levels` did not do.
// Calls itself for the smaller part.
template <typename Cut>
VORTEX_AVX512 bool quick_sort(typename Cut::Bits* words, std::size_t count, int levels,
                              SmallSort<typename Cut::Bits> sort_few, SliceRoom room) noexcept {
  // Four blocks cost less than cuts where they are full, as parts are not.
  while (count > 2 * kBlockOfWords<typename Cut::Bits>) {
    if (room.memory != nullptr && count >= kMinSliced && count <= most_words_to_slice()) {
      if (slice_sort(words, count, room)) return true;
      // Few that are unevenly spread are rarely better in their parts.
      if (count < 4 * kMinSliced) room.memory = nullptr;
    }
    if (levels-- == 0) return false;
    const auto pivot = middle_of_sample<Cut>(words, count, sort_few);
    std::size_t lower = partition<Cut>(words, count, pivot);
    if (lower == count) {
      // The pivot is the greatest word: the others are below it.
      if (pivot == 0) return true;
      count = partition<Cut>(words, count, pivot - 1);
      continue;
    }
    const std::size_t upper = count - lower;
    if (lower < upper) {
      if (!quick_sort<Cut>(words, lower, levels, sort_few, room)) return false;
      words += lower;
      count = upper;
    } else {
      if (!quick_sort<Cut>(words + lower, upper, levels, sort_few, room)) return false;
      count = lower;
    }
  }
  block_sort_avx512(words, count);
  return true;
}

template <typename Cut>
bool sort(typename Cut::Bits* words, std::size_t count, int levels,
          SmallSort<typename Cut::Bits> sort_few, const SliceRoom& room) noexcept {
  if (isa_in_use() != Isa::kAvx512) return false;
  if (count > kMostBlocks * kBlockOfWords<typename Cut::Bits>) {
    return quick_sort<Cut>(words, count, levels, sort_few, room);
  }
  block_sort_avx512(words, count);
  return true;
}

}  // namespace

bool quick_sort(std::uint32_t* words, std::size_t count, int levels,
                const SliceRoom& room) noexcept {
  return sort<CutU32>(words, count, levels, &small_sort_u32_avx512, room);
}
bool quick_sort(std::uint64_t* words, std::size_t count, int levels,
                const SliceRoom& room) noexcept {
  return sort<CutU64>(words, count, levels, &small_sort_u64_avx512, room);
}

#else

bool quick_sort(std::uint32_t*, std::size_t, int, const SliceRoom&) noexcept { return false; }
bool quick_sort(std::uint64_t*, std::size_t, int, const SliceRoom&) noexcept { return false; }

#endif

}}}  // namespace vortex::v0::detail
