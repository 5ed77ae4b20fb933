// Words in the lanes of a register of AVX2, as sorting_network.h compares and moves them.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)

#include <immintrin.h>

#define VORTEX_KERNEL __attribute__((target("avx2,popcnt")))
#define VORTEX_NETWORK_TARGET VORTEX_KERNEL __attribute__((always_inline)) inline
#include "sort/kernels/sorting_network.h"

namespace vortex { inline namespace v0 { namespace detail { namespace {

// What the lanes of both widths have.
struct LanesOfAvx2 {
  using Vector = __m256i;

  VORTEX_NETWORK_TARGET static Vector load(const void* at) noexcept {
    return _mm256_load_si256(static_cast<const __m256i*>(at));
  }
  VORTEX_NETWORK_TARGET static void store(void* at, Vector v) noexcept {
    _mm256_store_si256(static_cast<__m256i*>(at), v);
  }
};

// There is neither an unsigned comparison of 64 bits nor a minimum before AVX-512: in the lanes the
// sign bit of words is flipped, and they are compared as signed numbers.
struct LanesU64 : LanesOfAvx2 {
  using Record = std::uint64_t;
  static constexpr int kLanes = 4;
  static constexpr Record kFlip = Record{1} << 63;
  static constexpr Record kGreatest = ~kFlip;

  VORTEX_NETWORK_TARGET static Vector flipped(Vector v) noexcept {
    return _mm256_xor_si256(v, all(kFlip));
  }
  // The lanes of register i that hold some of `count` words.
  VORTEX_NETWORK_TARGET static Vector mask_of(std::size_t count, int i) noexcept {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(count) - i * kLanes),
                              _mm256_setr_epi64x(0, 1, 2, 3));
  }
  VORTEX_NETWORK_TARGET static Vector load_some(const Record* at, Vector mask) noexcept {
    return _mm256_maskload_epi64(reinterpret_cast<const long long*>(at), mask);
  }
  VORTEX_NETWORK_TARGET static Vector all(Record word) noexcept {
    return _mm256_set1_epi64x(static_cast<long long>(word));
  }

  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    exchange_some(_mm256_cmpgt_epi64(a, b), a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    exchange_some(out_of_order<G>(a, b), a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    return pick(out_of_order<G>(a, b), a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector reverse(Vector a) noexcept {
    return G == 2 ? _mm256_shuffle_epi32(a, 0x4e) : _mm256_permute4x64_epi64(a, 0x1b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector exchange_halves(Vector a) noexcept {
    return G == 2 ? _mm256_shuffle_epi32(a, 0x4e) : _mm256_permute4x64_epi64(a, 0x4e);
  }

  // Column after column of R registers, into `out` in order.
  template <int R>
  VORTEX_NETWORK_TARGET static void columns_in_order(const Vector* v, Vector* out) noexcept {
    if constexpr (R == 1) out[0] = v[0];
    if constexpr (R == 2) {
      const Vector even = _mm256_unpacklo_epi64(v[0], v[1]);
      const Vector odd = _mm256_unpackhi_epi64(v[0], v[1]);
      out[0] = _mm256_permute2x128_si256(even, odd, 0x20);
      out[1] = _mm256_permute2x128_si256(even, odd, 0x31);
    }
    constexpr int kFours = R / 4;
#pragma GCC unroll 4
    for (int four = 0; four < kFours; ++four) {
      const Vector* const rows = v + 4 * four;
      const Vector even_01 = _mm256_unpacklo_epi64(rows[0], rows[1]);
      const Vector odd_01 = _mm256_unpackhi_epi64(rows[0], rows[1]);
      const Vector even_23 = _mm256_unpacklo_epi64(rows[2], rows[3]);
      const Vector odd_23 = _mm256_unpackhi_epi64(rows[2], rows[3]);
      out[four] = _mm256_permute2x128_si256(even_01, even_23, 0x20);
      out[kFours + four] = _mm256_permute2x128_si256(odd_01, odd_23, 0x20);
      out[2 * kFours + four] = _mm256_permute2x128_si256(even_01, even_23, 0x31);
      out[3 * kFours + four] = _mm256_permute2x128_si256(odd_01, odd_23, 0x31);
    }
  }

 private:
  // Lane by lane `b` where the mask is set, `a` elsewhere.
  VORTEX_NETWORK_TARGET static Vector pick(Vector mask, Vector a, Vector b) noexcept {
    return _mm256_blendv_epi8(a, b, mask);
  }
  VORTEX_NETWORK_TARGET static void exchange_some(Vector mask, Vector& a, Vector& b) noexcept {
    const Vector low = pick(mask, a, b);
    b = pick(mask, b, a);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector out_of_order(Vector a, Vector b) noexcept {
    const Vector upper =
        G == 2 ? _mm256_setr_epi64x(0, -1, 0, -1) : _mm256_setr_epi64x(0, 0, -1, -1);
    return _mm256_xor_si256(_mm256_cmpgt_epi64(a, b), upper);
  }
};

// Lanes of which the processor takes the least in one operation. kUpper<G> has a bit for each 32
// bits of the upper half of a group.
template <typename Of>
struct LanesByLeast : Of {
  using typename Of::Vector;

  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    const Vector low = Of::least(a, b);
    b = Of::greatest(a, b);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    const Vector low = Of::least(a, b);
    const Vector high = Of::greatest(a, b);
    a = _mm256_blend_epi32(low, high, Of::template kUpper<G>);
    b = _mm256_blend_epi32(high, low, Of::template kUpper<G>);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    return _mm256_blend_epi32(Of::least(a, b), Of::greatest(a, b), Of::template kUpper<G>);
  }
};

// Doubles, as their bits, none of which is a NaN. Zeros of both signs are equal, and one may come
// out in place of another. Comparing denormals sets a flag.
struct BitsOfDoubles : LanesU64 {
  static constexpr Record kFlip = 0;
  static constexpr Record kGreatest = std::uint64_t{0x7ff} << 52;  // infinity

  VORTEX_NETWORK_TARGET static Vector flipped(Vector v) noexcept { return v; }

  template <int G>
  static constexpr int kUpper = G == 2 ? 0xcc : 0xf0;

  VORTEX_NETWORK_TARGET static Vector least(Vector a, Vector b) noexcept {
    return _mm256_castpd_si256(_mm256_min_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b)));
  }
  VORTEX_NETWORK_TARGET static Vector greatest(Vector a, Vector b) noexcept {
    return _mm256_castpd_si256(_mm256_max_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b)));
  }
};

using LanesF64 = LanesByLeast<BitsOfDoubles>;

struct WordsOf32Bits : LanesOfAvx2 {
  using Record = std::uint32_t;
  static constexpr int kLanes = 8;
  static constexpr Record kFlip = 0;
  static constexpr Record kGreatest = ~Record{0};

  VORTEX_NETWORK_TARGET static Vector flipped(Vector v) noexcept { return v; }
  VORTEX_NETWORK_TARGET static Vector mask_of(std::size_t count, int i) noexcept {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count) - i * kLanes),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  VORTEX_NETWORK_TARGET static Vector load_some(const Record* at, Vector mask) noexcept {
    return _mm256_maskload_epi32(reinterpret_cast<const int*>(at), mask);
  }
  VORTEX_NETWORK_TARGET static Vector all(Record word) noexcept {
    return _mm256_set1_epi32(static_cast<int>(word));
  }

  VORTEX_NETWORK_TARGET static Vector least(Vector a, Vector b) noexcept {
    return _mm256_min_epu32(a, b);
  }
  VORTEX_NETWORK_TARGET static Vector greatest(Vector a, Vector b) noexcept {
    return _mm256_max_epu32(a, b);
  }
  template <int G>
  static constexpr int kUpper = G == 2   ? 0xaa
                                : G == 4 ? 0xcc
                                         : 0xf0;
  template <int G>
  VORTEX_NETWORK_TARGET static Vector reverse(Vector a) noexcept {
    if constexpr (G == 2) return _mm256_shuffle_epi32(a, 0xb1);
    if constexpr (G == 4) return _mm256_shuffle_epi32(a, 0x1b);
    if constexpr (G == 8) {
      return _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    }
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector exchange_halves(Vector a) noexcept {
    if constexpr (G == 2) return _mm256_shuffle_epi32(a, 0xb1);
    if constexpr (G == 4) return _mm256_shuffle_epi32(a, 0x4e);
    if constexpr (G == 8) return _mm256_permute4x64_epi64(a, 0x4e);
  }

  template <int R>
  VORTEX_NETWORK_TARGET static void columns_in_order(const Vector* v, Vector* out) noexcept {
    if constexpr (R == 1) out[0] = v[0];
    if constexpr (R == 2) {
      const Vector low = _mm256_unpacklo_epi32(v[0], v[1]);
      const Vector high = _mm256_unpackhi_epi32(v[0], v[1]);
      out[0] = _mm256_permute2x128_si256(low, high, 0x20);
      out[1] = _mm256_permute2x128_si256(low, high, 0x31);
    }
    // The lower half of quads[r + c] are rows r ... r + 3 of column c, the upper of column 4 + c.
    Vector quads[R];
#pragma GCC unroll 2
    for (int r = 0; r + 3 < R; r += 4) {
      const Vector low_01 = _mm256_unpacklo_epi32(v[r], v[r + 1]);
      const Vector high_01 = _mm256_unpackhi_epi32(v[r], v[r + 1]);
      const Vector low_23 = _mm256_unpacklo_epi32(v[r + 2], v[r + 3]);
      const Vector high_23 = _mm256_unpackhi_epi32(v[r + 2], v[r + 3]);
      quads[r + 0] = _mm256_unpacklo_epi64(low_01, low_23);
      quads[r + 1] = _mm256_unpackhi_epi64(low_01, low_23);
      quads[r + 2] = _mm256_unpacklo_epi64(high_01, high_23);
      quads[r + 3] = _mm256_unpackhi_epi64(high_01, high_23);
    }
    // Of 4 rows, neighbouring columns fill a register, of 8 rows one column does.
    constexpr int kApart = R == 4 ? 1 : 4, kStep = R == 4 ? 2 : 1, kHalf = R / 2;
#pragma GCC unroll 4
    for (int i = 0; R >= 4 && i < kHalf; ++i) {
      out[i] = _mm256_permute2x128_si256(quads[kStep * i], quads[kStep * i + kApart], 0x20);
      out[kHalf + i] = _mm256_permute2x128_si256(quads[kStep * i], quads[kStep * i + kApart], 0x31);
    }
  }
};

using LanesU32 = LanesByLeast<WordsOf32Bits>;

}}}}  // namespace vortex::v0::detail::(anonymous)

#endif
