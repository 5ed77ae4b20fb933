// Quicksort with AVX-512.
#include <cstddef>
#include <cstdint>

#include "sort/kernels/vector_sorts.h"

#if defined(__x86_64__)

#include "sort/kernels/avx512_lanes.h"
#include "sort/kernels/cut_in_two.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

struct CutOfAvx512 {
  using Vector = __m512i;
  static constexpr unsigned kBitsOfLane = 1;

  VORTEX_NETWORK_TARGET static Vector load(const void* at) noexcept {
    return _mm512_loadu_si512(at);
  }
  template <typename Bits>
  static void sort_blocks(Bits* words, std::size_t count) noexcept {
    block_sort_avx512(words, count);
  }
};

// Eight lanes at a time, since there are as many orders as a table of few cache lines holds. A
// permutation looks at the lowest bits of its lanes alone, so that one shift makes it of an order.
struct CutU64 : CutOfAvx512 {
  using Bits = std::uint64_t;
  static constexpr std::size_t kLanes = 8, kBlock = kBlockOfWords<Bits>;

  VORTEX_NETWORK_TARGET static __m512i all(Bits word) noexcept {
    return _mm512_set1_epi64(static_cast<long long>(word));
  }
  VORTEX_NETWORK_TARGET static unsigned lower(__m512i v, __m512i pivot) noexcept {
    return _mm512_cmple_epu64_mask(v, pivot);
  }
  VORTEX_NETWORK_TARGET static void cut(__m512i v, __m512i pivot, Gap<Bits>& gap) noexcept {
    const unsigned lower = CutU64::lower(v, pivot);
    const __m512i order =
        _mm512_set1_epi64(static_cast<long long>(kLowerFirst<std::uint64_t, 8>[lower]));
    const __m512i lanes = _mm512_srlv_epi64(order, _mm512_setr_epi64(0, 8, 16, 24, 32, 40, 48, 56));
    const __m512i cut = _mm512_permutexvar_epi64(lanes, v);
    _mm512_storeu_si512(gap.begin, cut);
    _mm512_storeu_si512(gap.end() - kLanes, cut);
    gap.shrink(kLanes, __builtin_popcount(lower));
  }
  VORTEX_NETWORK_TARGET static void store_some(__m512i v, unsigned wanted, Bits* at) noexcept {
    const __m512i some = _mm512_maskz_compress_epi64(static_cast<__mmask8>(wanted), v);
    const auto size = static_cast<unsigned>(__builtin_popcount(wanted));
    _mm512_mask_storeu_epi64(at, static_cast<__mmask8>((1u << size) - 1), some);
  }
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

struct CutU32 : CutOfAvx512 {
  using Bits = std::uint32_t;
  static constexpr std::size_t kLanes = 16, kBlock = kBlockOfWords<Bits>;

  VORTEX_NETWORK_TARGET static __m512i all(Bits word) noexcept {
    return _mm512_set1_epi32(static_cast<int>(word));
  }
  VORTEX_NETWORK_TARGET static unsigned lower(__m512i v, __m512i pivot) noexcept {
    return _mm512_cmple_epu32_mask(v, pivot);
  }
  VORTEX_NETWORK_TARGET static void cut(__m512i v, __m512i pivot, Gap<Bits>& gap) noexcept {
    const unsigned lower = CutU32::lower(v, pivot);
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
    const __m256i cut = lower_first(v, lower);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(gap.begin), cut);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(gap.end() - kLanes / 2), cut);
    gap.shrink(kLanes / 2, __builtin_popcount(lower));
  }
};

}  // namespace

bool quick_sort_avx512(std::uint32_t* words, std::size_t count, int levels,
                       const SliceRoom& room) noexcept {
  return sort_by_blocks_or_cuts<CutU32>(words, count, levels, room);
}
bool quick_sort_avx512(std::uint64_t* words, std::size_t count, int levels,
                       const SliceRoom& room) noexcept {
  return sort_by_blocks_or_cuts<CutU64>(words, count, levels, room);
}

}}}  // namespace vortex::v0::detail

#endif
