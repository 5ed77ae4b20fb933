// Blocks of words, each sorted by the base case, are merged by networks: a level costs a quarter of
// what quicksort takes for it where words are so few.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sort/kernels/avx512_lanes.h"
#include "sort/kernels/small_sort_avx512.h"

#if defined(__x86_64__)

namespace vortex { inline namespace v0 { namespace detail {

namespace {

template <typename Lanes>
constexpr std::size_t kBlock = kBlockOfWords<typename Lanes::Record>;

// Sorts a bitonic sequence of `count` words, blocks of a number that is a power of two.
template <typename Lanes>
VORTEX_AVX512 void clean(typename Lanes::Record* words, std::size_t count) noexcept {
  constexpr std::size_t kRegisters = kBlock<Lanes> / Lanes::kLanes;
  if (count > kBlock<Lanes>) {
    const std::size_t half = count / 2;
    for (std::size_t i = 0; i < half; i += Lanes::kLanes) {
      __m512i low = _mm512_load_si512(words + i), high = _mm512_load_si512(words + half + i);
      Lanes::exchange(low, high);
      _mm512_store_si512(words + i, low);
      _mm512_store_si512(words + half + i, high);
    }
    clean<Lanes>(words, half);
    clean<Lanes>(words + half, half);
    return;
  }
  __m512i v[kRegisters];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRegisters; ++i) v[i] = _mm512_load_si512(words + i * Lanes::kLanes);
  clean_between_registers<Lanes, kRegisters>(v);
  clean_between_lanes<Lanes, kRegisters, Lanes::kLanes>(v);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRegisters; ++i) _mm512_store_si512(words + i * Lanes::kLanes, v[i]);
}

// Merges the sorted halves of such words.
template <typename Lanes>
VORTEX_AVX512 void merge_halves(typename Lanes::Record* words, std::size_t count) noexcept {
  const std::size_t half = count / 2;
  for (std::size_t i = 0; i < half; i += Lanes::kLanes) {
    auto* const mirrored = words + count - Lanes::kLanes - i;
    __m512i low = _mm512_load_si512(words + i);
    __m512i high = Lanes::template reverse<Lanes::kLanes>(_mm512_load_si512(mirrored));
    Lanes::exchange(low, high);
    _mm512_store_si512(words + i, low);
    _mm512_store_si512(mirrored, high);
  }
  clean<Lanes>(words, half);
  clean<Lanes>(words + half, half);
}

template <typename Lanes, typename Sort>
VORTEX_AVX512 void sort_blocks(typename Lanes::Record* words, std::size_t count,
                               const Sort& sort_few) noexcept {
  using Word = typename Lanes::Record;
  if (count <= kBlock<Lanes>) return sort_few(words, count, words);
  alignas(64) Word sorted[kMostBlocks * kBlock<Lanes>];
  std::size_t size = kBlock<Lanes>;
  while (size < count) size *= 2;
  for (std::size_t at = 0; at < count; at += kBlock<Lanes>) {
    sort_few(words + at, std::min(count - at, kBlock<Lanes>), sorted + at);
  }
  std::fill(sorted + count, sorted + size, Lanes::kGreatest);
  for (std::size_t half = kBlock<Lanes>; half < size; half *= 2) {
    // A second half that is padding alone is where it belongs.
    for (std::size_t at = 0; at + half < count; at += 2 * half) {
      merge_halves<Lanes>(sorted + at, 2 * half);
    }
  }
  std::memcpy(words, sorted, count * sizeof(Word));
}

constexpr std::uint64_t kSignOfDouble = std::uint64_t{1} << 63;

// How many of them are -0.0, or more than there are where one is a NaN.
VORTEX_AVX512 std::size_t negative_zeros(const std::uint64_t* words, std::size_t count) noexcept {
  const __m512i sign = _mm512_set1_epi64(static_cast<long long>(kSignOfDouble));
  const __m512i infinity = _mm512_set1_epi64(static_cast<long long>(LanesF64::kGreatest));
  unsigned zeros = 0, nans = 0;
  std::size_t i = 0;
  const auto look = [&](__m512i v) VORTEX_AVX512 {
    zeros += static_cast<unsigned>(__builtin_popcount(_mm512_cmpeq_epi64_mask(v, sign)));
    nans |= _mm512_cmpgt_epu64_mask(_mm512_andnot_si512(sign, v), infinity);
  };
  for (; i + 8 <= count; i += 8) look(_mm512_loadu_si512(words + i));
  look(_mm512_maskz_loadu_epi64(mask_of<__mmask8>(count - i, 0), words + i));
  return nans != 0 ? count + 1 : zeros;
}

}  // namespace

VORTEX_AVX512 bool sort_doubles_avx512(std::uint64_t* words, std::size_t count,
                                       bool descending) noexcept {
  constexpr unsigned kDenormalsAreZeros = 1u << 6;
  if ((_mm_getcsr() & kDenormalsAreZeros) != 0) return false;
  const auto turn = [=] {
    if (!descending) return;
    for (std::size_t i = 0; i < count; ++i) words[i] ^= kSignOfDouble;
  };
  turn();
  const std::size_t negative = negative_zeros(words, count);
  if (negative > count) return turn(), false;
  sort_blocks<LanesF64>(words, count, small_sort_f64_avx512);
  if (negative != 0) {
    const auto is_below = [](std::uint64_t word) {
      return (word & kSignOfDouble) != 0 && word != kSignOfDouble;
    };
    auto* at = std::partition_point(words, words + count, is_below);
    for (std::size_t i = 0; at != words + count && (*at & ~kSignOfDouble) == 0; ++at, ++i) {
      *at = i < negative ? kSignOfDouble : 0;
    }
  }
  turn();
  return true;
}

VORTEX_AVX512 void block_sort_avx512(std::uint32_t* words, std::size_t count) noexcept {
  sort_blocks<LanesU32>(words, count, small_sort_u32_avx512);
}

VORTEX_AVX512 void block_sort_avx512(std::uint64_t* words, std::size_t count) noexcept {
  if (__builtin_cpu_is("intel")) {
    sort_blocks<ComparedLanesU64>(words, count, small_sort_u64_avx512);
  } else {
    sort_blocks<LanesU64>(words, count, small_sort_u64_avx512);
  }
}

}}}  // namespace vortex::v0::detail

#endif
