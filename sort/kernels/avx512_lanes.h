// Records in the lanes of a register of AVX-512, as sorting_network.h compares and moves them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vortex/detail/array/small_sort.h"

#if defined(__x86_64__)

// GCC 12 takes the deliberately undefined operands in its own intrinsics for mistakes of ours.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#define VORTEX_KERNEL __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#define VORTEX_NETWORK_TARGET VORTEX_KERNEL __attribute__((always_inline)) inline
#include "sort/kernels/sorting_network.h"

namespace vortex { inline namespace v0 { namespace detail { namespace {

// Which of the words of register i lie below `words`, as a mask with a bit for each lane.
template <typename Mask>
VORTEX_NETWORK_TARGET Mask mask_of(std::size_t words, std::size_t i) noexcept {
  constexpr std::size_t kLanes = 8 * sizeof(Mask);
  const std::size_t first = i * kLanes;
  return words >= first + kLanes ? static_cast<Mask>(~0u)
         : words > first         ? static_cast<Mask>((1u << (words - first)) - 1)
                                 : 0;
}

// The lanes of the upper halves of groups of G lanes, as a mask.
template <int G>
constexpr unsigned upper_halves() noexcept {
  unsigned mask = 0;
  for (int lane = 0; lane < 16; ++lane) {
    if (lane % G >= G / 2) mask |= 1u << lane;
  }
  return mask;
}

template <int G>
VORTEX_NETWORK_TARGET __m512i reverse_u64(__m512i a) noexcept {
  if constexpr (G == 2) return _mm512_shuffle_epi32(a, static_cast<_MM_PERM_ENUM>(0x4e));
  if constexpr (G == 4) return _mm512_permutex_epi64(a, 0x1b);
  if constexpr (G == 8) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0), a);
  }
}

template <int G>
VORTEX_NETWORK_TARGET __m512i exchange_halves_u64(__m512i a) noexcept {
  if constexpr (G == 2) return _mm512_shuffle_epi32(a, static_cast<_MM_PERM_ENUM>(0x4e));
  if constexpr (G == 4) return _mm512_permutex_epi64(a, 0x4e);
  if constexpr (G == 8) return _mm512_shuffle_i64x2(a, a, 0x4e);
}

struct LanesOfAvx512 {
  using Vector = __m512i;

  VORTEX_NETWORK_TARGET static Vector load(const void* at) noexcept {
    return _mm512_load_si512(at);
  }
  VORTEX_NETWORK_TARGET static void store(void* at, Vector v) noexcept {
    _mm512_store_si512(at, v);
  }
};

struct LanesU64 : LanesOfAvx512 {
  using Record = std::uint64_t;
  static constexpr int kLanes = 8;
  static constexpr Record kFlip = 0;
  static constexpr Record kGreatest = ~Record{0};

  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    const Vector low = _mm512_min_epu64(a, b);
    b = _mm512_max_epu64(a, b);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    constexpr __mmask8 kUpper = static_cast<__mmask8>(upper_halves<G>());
    const Vector low = _mm512_min_epu64(a, b);
    const Vector high = _mm512_max_epu64(a, b);
    a = _mm512_mask_mov_epi64(low, kUpper, high);
    b = _mm512_mask_mov_epi64(high, kUpper, low);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    constexpr __mmask8 kUpper = static_cast<__mmask8>(upper_halves<G>());
    return _mm512_mask_max_epu64(_mm512_min_epu64(a, b), kUpper, a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector reverse(Vector a) noexcept {
    return reverse_u64<G>(a);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector exchange_halves(Vector a) noexcept {
    return exchange_halves_u64<G>(a);
  }
};

// For processors that take the least of 64-bit words in several operations, as Intel's do: a
// comparison and a move by its mask are fewer.
struct ComparedLanesU64 : LanesU64 {
  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    exchange_some(_mm512_cmplt_epu64_mask(b, a), a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    exchange_some(out_of_order<G>(a, b), a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    return _mm512_mask_mov_epi64(a, out_of_order<G>(a, b), b);
  }

 private:
  template <int G>
  VORTEX_NETWORK_TARGET static __mmask8 out_of_order(Vector a, Vector b) noexcept {
    return _kxor_mask8(_mm512_cmplt_epu64_mask(b, a), static_cast<__mmask8>(upper_halves<G>()));
  }
  VORTEX_NETWORK_TARGET static void exchange_some(__mmask8 lanes, Vector& a, Vector& b) noexcept {
    const Vector low = _mm512_mask_mov_epi64(a, lanes, b);
    b = _mm512_mask_mov_epi64(b, lanes, a);
    a = low;
  }
};

// Doubles, as their bits, none of which is a NaN: the processor takes the least of them in one
// operation. Zeros of both signs are equal, and one may come out in place of another. No exception
// is raised, and no flag, but denormals must count as themselves.
struct LanesF64 : LanesU64 {
  static constexpr Record kGreatest = std::uint64_t{0x7ff} << 52;  // infinity

  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    const Vector low = least(a, b);
    b = greatest(a, b);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    constexpr __mmask8 kUpper = static_cast<__mmask8>(upper_halves<G>());
    const Vector low = least(a, b);
    const Vector high = greatest(a, b);
    a = _mm512_mask_mov_epi64(low, kUpper, high);
    b = _mm512_mask_mov_epi64(high, kUpper, low);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    constexpr __mmask8 kUpper = static_cast<__mmask8>(upper_halves<G>());
    return _mm512_mask_mov_epi64(least(a, b), kUpper, greatest(a, b));
  }

 private:
  VORTEX_NETWORK_TARGET static Vector least(Vector a, Vector b) noexcept {
    return _mm512_castpd_si512(
        _mm512_min_round_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b), _MM_FROUND_NO_EXC));
  }
  VORTEX_NETWORK_TARGET static Vector greatest(Vector a, Vector b) noexcept {
    return _mm512_castpd_si512(
        _mm512_max_round_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b), _MM_FROUND_NO_EXC));
  }
};

struct LanesU32 : LanesOfAvx512 {
  using Record = std::uint32_t;
  static constexpr int kLanes = 16;
  static constexpr Record kFlip = 0;
  static constexpr Record kGreatest = ~Record{0};

  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    const Vector low = _mm512_min_epu32(a, b);
    b = _mm512_max_epu32(a, b);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    constexpr __mmask16 kUpper = static_cast<__mmask16>(upper_halves<G>());
    const Vector low = _mm512_min_epu32(a, b);
    const Vector high = _mm512_max_epu32(a, b);
    a = _mm512_mask_mov_epi32(low, kUpper, high);
    b = _mm512_mask_mov_epi32(high, kUpper, low);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    constexpr __mmask16 kUpper = static_cast<__mmask16>(upper_halves<G>());
    return _mm512_mask_max_epu32(_mm512_min_epu32(a, b), kUpper, a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector reverse(Vector a) noexcept {
    if constexpr (G == 2) return _mm512_shuffle_epi32(a, static_cast<_MM_PERM_ENUM>(0xb1));
    if constexpr (G == 4) return _mm512_shuffle_epi32(a, static_cast<_MM_PERM_ENUM>(0x1b));
    if constexpr (G == 8) {
      return _mm512_permutexvar_epi32(
          _mm512_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8), a);
    }
    if constexpr (G == 16) {
      return _mm512_permutexvar_epi32(
          _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), a);
    }
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector exchange_halves(Vector a) noexcept {
    if constexpr (G == 2) return _mm512_shuffle_epi32(a, static_cast<_MM_PERM_ENUM>(0xb1));
    if constexpr (G >= 4) return exchange_halves_u64<G / 2>(a);
  }
};

// Keys and values in registers of their own.
struct LanesPair64 {
  using Record = Pair64;
  struct Vector {
    __m512i keys;
    __m512i values;
  };
  static constexpr int kLanes = 8;

  // Lane by lane `b` where the mask has a bit, `a` elsewhere.
  VORTEX_NETWORK_TARGET static Vector pick(__mmask8 mask, const Vector& a,
                                           const Vector& b) noexcept {
    return {_mm512_mask_mov_epi64(a.keys, mask, b.keys),
            _mm512_mask_mov_epi64(a.values, mask, b.values)};
  }
  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    const __mmask8 wrong = _mm512_cmplt_epu64_mask(b.keys, a.keys);
    const Vector low = pick(wrong, a, b);
    b = pick(wrong, b, a);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    constexpr __mmask8 kUpper = static_cast<__mmask8>(upper_halves<G>());
    // One mask for both results, so that no record is taken twice among equal keys.
    const auto wrong = static_cast<__mmask8>(_mm512_cmplt_epu64_mask(b.keys, a.keys) ^ kUpper);
    const Vector low = pick(wrong, a, b);
    b = pick(wrong, b, a);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(const Vector& a, const Vector& b) noexcept {
    constexpr unsigned kUpper = upper_halves<G>() & 0xff;
    // Strict on both sides: of two equal keys each lane keeps its own.
    const unsigned smaller = _mm512_cmplt_epu64_mask(b.keys, a.keys);
    const unsigned larger = _mm512_cmplt_epu64_mask(a.keys, b.keys);
    return pick(static_cast<__mmask8>((smaller & ~kUpper) | (larger & kUpper)), a, b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector reverse(const Vector& a) noexcept {
    return {reverse_u64<G>(a.keys), reverse_u64<G>(a.values)};
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector exchange_halves(const Vector& a) noexcept {
    return {exchange_halves_u64<G>(a.keys), exchange_halves_u64<G>(a.values)};
  }
};

}  // namespace

}}}  // namespace vortex::v0::detail

#endif
