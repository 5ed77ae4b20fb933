// Blocks of words with AVX-512, and doubles compared as such.
#include <cstddef>
#include <cstdint>

#include "sort/kernels/double_sort.h"
#include "sort/kernels/vector_sorts.h"

#if defined(__x86_64__)

#include "sort/kernels/avx512_lanes.h"
#include "sort/kernels/block_sort.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

template <typename Lanes, typename Sort>
VORTEX_KERNEL void sort_where_they_are(typename Lanes::Record* words, std::size_t count,
                                       const Sort& sort_few) noexcept {
  constexpr std::size_t kBlock = kBlockOfWords<typename Lanes::Record>;
  if (count <= kBlock) return sort_few(words, count, words);
  const auto sort_block = [=](const auto* in, std::size_t size, auto* out) VORTEX_KERNEL {
    sort_few(in, size, out);
    return size;
  };
  sort_blocks<Lanes, kBlock>(words, count, words, sort_block);
}

// How many of them are -0.0, or more than there are where one is a NaN.
VORTEX_KERNEL std::size_t negative_zeros(const std::uint64_t* words, std::size_t count) noexcept {
  const __m512i sign = _mm512_set1_epi64(static_cast<long long>(kSignOfDouble));
  const __m512i infinity = _mm512_set1_epi64(static_cast<long long>(LanesF64::kGreatest));
  unsigned zeros = 0, nans = 0;
  std::size_t i = 0;
  const auto look = [&](__m512i v) VORTEX_KERNEL {
    zeros += static_cast<unsigned>(__builtin_popcount(_mm512_cmpeq_epi64_mask(v, sign)));
    nans |= _mm512_cmpgt_epu64_mask(_mm512_andnot_si512(sign, v), infinity);
  };
  for (; i + 8 <= count; i += 8) look(_mm512_loadu_si512(words + i));
  look(_mm512_maskz_loadu_epi64(mask_of<__mmask8>(count - i, 0), words + i));
  return nans != 0 ? count + 1 : zeros;
}

}  // namespace

VORTEX_KERNEL bool sort_doubles_avx512(std::uint64_t* words, std::size_t count,
                                       bool descending) noexcept {
  constexpr unsigned kDenormalsAreZeros = 1u << 6;
  if ((_mm_getcsr() & kDenormalsAreZeros) != 0) return false;
  return sort_doubles(words, count, descending, negative_zeros,
                      [](std::uint64_t* at, std::size_t size) VORTEX_KERNEL {
                        sort_where_they_are<LanesF64>(at, size, small_sort_f64_avx512);
                      });
}

VORTEX_KERNEL void block_sort_avx512(std::uint32_t* words, std::size_t count) noexcept {
  sort_where_they_are<LanesU32>(words, count, small_sort_u32_avx512);
}

VORTEX_KERNEL void block_sort_avx512(std::uint64_t* words, std::size_t count) noexcept {
  if (__builtin_cpu_is("intel")) {
    sort_where_they_are<ComparedLanesU64>(words, count, small_sort_u64_avx512);
  } else {
    sort_where_they_are<LanesU64>(words, count, small_sort_u64_avx512);
  }
}

}}}  // namespace vortex::v0::detail

#endif
