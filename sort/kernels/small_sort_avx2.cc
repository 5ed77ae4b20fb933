// The base case with AVX2: up to 64 words in up to 16 registers, and up to four such blocks.
#include "sort/kernels/double_sort.h"
#include "sort/kernels/vector_sorts.h"

#if defined(__x86_64__)

#include <algorithm>

#include "sort/kernels/avx2_lanes.h"
#include "sort/kernels/block_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// R registers, the first kWhole of which are full.
template <typename Lanes, int R, int kWhole>
VORTEX_NETWORK_TARGET void sort_rows(const typename Lanes::Record* in, std::size_t count,
                                     __m256i* ordered) noexcept {
  __m256i v[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    const auto* const at = in + i * Lanes::kLanes;
    __m256i words;
    if (i < kWhole) {
      words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    } else {
      const __m256i mask = Lanes::mask_of(count, i);
      words = _mm256_blendv_epi8(Lanes::all(Lanes::kGreatest ^ Lanes::kFlip),
                                 Lanes::load_some(at, mask), mask);
    }
    v[i] = Lanes::flipped(words);
  }
  sort_registers<Lanes, R>(v);
  Lanes::template columns_in_order<R>(v, ordered);
}

// To `out`, which has room for `count` words. Stores by a mask take AMD's processors tens of
// cycles: the last registers are stored whole, over each other.
template <typename Lanes, int R, int kWhole>
VORTEX_NETWORK_TARGET void sort_to(const typename Lanes::Record* in, std::size_t count,
                                   typename Lanes::Record* out) noexcept {
  constexpr std::size_t kLanes = Lanes::kLanes;
  __m256i ordered[R];
  sort_rows<Lanes, R, kWhole>(in, count, ordered);
  alignas(32) typename Lanes::Record words[R * kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    ordered[i] = Lanes::flipped(ordered[i]);
    if (i < kWhole) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i * kLanes), ordered[i]);
    if (i + 1 >= kWhole) Lanes::store(words + i * kLanes, ordered[i]);
  }
  if constexpr (R == 1) {
    for (std::size_t i = 0; i < count; ++i) out[i] = words[i];
  } else {
#pragma GCC unroll 8
    for (std::size_t i = kWhole; i < R; ++i) {
      const std::size_t at = std::min(i * kLanes, count - kLanes);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + at)));
    }
  }
}

// To a block, as they are in the lanes, with padding up to the last of the registers.
template <typename Lanes, int R, int kWhole>
VORTEX_NETWORK_TARGET std::size_t sort_registers_of_block(const typename Lanes::Record* in,
                                                          std::size_t count,
                                                          typename Lanes::Record* out) noexcept {
  __m256i ordered[R];
  sort_rows<Lanes, R, kWhole>(in, count, ordered);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) Lanes::store(out + i * Lanes::kLanes, ordered[i]);
  return R * Lanes::kLanes;
}
template <typename Lanes>
VORTEX_KERNEL std::size_t sort_block(const typename Lanes::Record* in, std::size_t count,
                                     typename Lanes::Record* out) noexcept {
  constexpr int R = kBlockOfAvx2 / Lanes::kLanes;
  if (count == kBlockOfAvx2) return sort_registers_of_block<Lanes, R, R>(in, count, out);
  if (count > kBlockOfAvx2 / 2) return sort_registers_of_block<Lanes, R, R / 2>(in, count, out);
  if (count > kBlockOfAvx2 / 4) {
    return sort_registers_of_block<Lanes, R / 2, R / 4>(in, count, out);
  }
  return sort_registers_of_block<Lanes, R / 4, 0>(in, count, out);
}

// Never part of its callers, so that no comparison is moved past a look at the flags.
template <typename Lanes>
[[gnu::noinline]] VORTEX_KERNEL void sort_words(const typename Lanes::Record* in, std::size_t count,
                                                typename Lanes::Record* out) noexcept {
  constexpr std::size_t kLanes = Lanes::kLanes;
  if (count == 0) return;  // no record, no pointer
  if (count > kBlockOfAvx2) {
    return sort_blocks<Lanes, kBlockOfAvx2>(in, count, out, sort_block<Lanes>);
  }
  if constexpr (kLanes == 4) {
    if (count > 8 * kLanes) return sort_to<Lanes, 16, 8>(in, count, out);
  }
  if (count > 4 * kLanes) {
    sort_to<Lanes, 8, 4>(in, count, out);
  } else if (count > 2 * kLanes) {
    sort_to<Lanes, 4, 2>(in, count, out);
  } else if (count > kLanes) {
    sort_to<Lanes, 2, 1>(in, count, out);
  } else {
    sort_to<Lanes, 1, 0>(in, count, out);
  }
}

VORTEX_KERNEL std::size_t negative_zeros(const std::uint64_t* words, std::size_t count) noexcept {
  const __m256i sign = LanesU64::all(kSignOfDouble), infinity = LanesU64::all(LanesF64::kGreatest);
  __m256i zeros = _mm256_setzero_si256(), nans = zeros;
  for (std::size_t i = 0; i < count; i += LanesF64::kLanes) {
    const __m256i v = LanesF64::load_some(words + i, LanesF64::mask_of(count - i, 0));
    zeros = _mm256_sub_epi64(zeros, _mm256_cmpeq_epi64(v, sign));
    nans = _mm256_or_si256(nans, _mm256_cmpgt_epi64(_mm256_andnot_si256(sign, v), infinity));
  }
  if (_mm256_testz_si256(nans, nans) == 0) return count + 1;
  alignas(32) std::uint64_t lanes[LanesF64::kLanes];
  LanesF64::store(lanes, zeros);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

}  // namespace

VORTEX_KERNEL bool sort_doubles_avx2(std::uint64_t* words, std::size_t count,
                                     bool descending) noexcept {
  constexpr unsigned kDenormalsAreZeros = 1u << 6, kDenormalsRaiseNothing = 1u << 8;
  const unsigned control = _mm_getcsr();
  if ((control & (kDenormalsAreZeros | kDenormalsRaiseNothing)) != kDenormalsRaiseNothing) {
    return false;
  }
  const bool sorted = sort_doubles(words, count, descending, negative_zeros,
                                   [](std::uint64_t* at, std::size_t size)
                                       VORTEX_KERNEL { sort_words<LanesF64>(at, size, at); });
  if (_mm_getcsr() != control) _mm_setcsr(control);
  return sorted;
}

VORTEX_KERNEL void small_sort_u64_avx2(const std::uint64_t* in, std::size_t count,
                                       std::uint64_t* out) noexcept {
  sort_words<LanesU64>(in, count, out);
}

VORTEX_KERNEL void small_sort_u32_avx2(const std::uint32_t* in, std::size_t count,
                                       std::uint32_t* out) noexcept {
  sort_words<LanesU32>(in, count, out);
}

}}}  // namespace vortex::v0::detail

#endif
