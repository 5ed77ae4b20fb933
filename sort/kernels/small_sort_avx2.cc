// The base case with AVX2: up to 64 keys in registers, two such halves merged.
#include "sort/kernels/small_sort_avx512.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define VORTEX_AVX2 __attribute__((target("avx2")))
#define VORTEX_NETWORK_TARGET VORTEX_AVX2 __attribute__((always_inline)) inline
#include "sort/kernels/sorting_network.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// 64-bit lanes have no unsigned comparison and no minimum before AVX-512: keys are kept with their
// sign bit flipped and compared as signed numbers.
struct LanesI64 {
  using Vector = __m256i;
  static constexpr int kLanes = 4;

  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    const Vector wrong = _mm256_cmpgt_epi64(a, b);
    const Vector low = _mm256_blendv_epi8(a, b, wrong);
    b = _mm256_blendv_epi8(b, a, wrong);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector upper() noexcept {
    return G == 2 ? _mm256_setr_epi64x(0, -1, 0, -1) : _mm256_setr_epi64x(0, 0, -1, -1);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    const Vector wrong = _mm256_xor_si256(_mm256_cmpgt_epi64(a, b), upper<G>());
    const Vector low = _mm256_blendv_epi8(a, b, wrong);
    b = _mm256_blendv_epi8(b, a, wrong);
    a = low;
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    const Vector wrong = _mm256_xor_si256(_mm256_cmpgt_epi64(a, b), upper<G>());
    return _mm256_blendv_epi8(a, b, wrong);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector reverse(Vector a) noexcept {
    return G == 2 ? _mm256_shuffle_epi32(a, 0x4e) : _mm256_permute4x64_epi64(a, 0x1b);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector exchange_halves(Vector a) noexcept {
    return G == 2 ? _mm256_shuffle_epi32(a, 0x4e) : _mm256_permute4x64_epi64(a, 0x4e);
  }
};

struct LanesU32 {
  using Vector = __m256i;
  static constexpr int kLanes = 8;

  VORTEX_NETWORK_TARGET static void exchange(Vector& a, Vector& b) noexcept {
    const Vector low = _mm256_min_epu32(a, b);
    b = _mm256_max_epu32(a, b);
    a = low;
  }
  // Bit l: lane l is in the upper half of its group.
  template <int G>
  static constexpr int kUpper = G == 2   ? 0xaa
                                : G == 4 ? 0xcc
                                         : 0xf0;
  template <int G>
  VORTEX_NETWORK_TARGET static void exchange_mirrored(Vector& a, Vector& b) noexcept {
    const Vector low = _mm256_min_epu32(a, b);
    const Vector high = _mm256_max_epu32(a, b);
    a = _mm256_blend_epi32(low, high, kUpper<G>);
    b = _mm256_blend_epi32(high, low, kUpper<G>);
  }
  template <int G>
  VORTEX_NETWORK_TARGET static Vector keep_ordered(Vector a, Vector b) noexcept {
    return _mm256_blend_epi32(_mm256_min_epu32(a, b), _mm256_max_epu32(a, b), kUpper<G>);
  }
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
};

// Sorts R registers that lie in memory; the columns are then read out one after the other.
template <typename Lanes, int R, typename Key>
VORTEX_NETWORK_TARGET void sort_matrix(Key* keys) noexcept {
  typename Lanes::Vector v[R];
  auto* at = reinterpret_cast<typename Lanes::Vector*>(keys);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) v[i] = _mm256_load_si256(at + i);
  sort_registers<Lanes, R>(v);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) _mm256_store_si256(at + i, v[i]);
}

// Sorts up to 64 keys; `flip` is XORed to each before and after.
template <typename Lanes, typename Key>
VORTEX_NETWORK_TARGET void sort_up_to_64(const Key* in, std::size_t count, Key* out,
                                         Key flip) noexcept {
  constexpr std::size_t kLanes = Lanes::kLanes;
  constexpr std::size_t kRows = 64 / kLanes;
  alignas(32) Key keys[64];
  for (std::size_t i = 0; i < count; ++i) keys[i] = in[i] ^ flip;
  const bool half = count <= 32;
  const std::size_t padded = half ? 32 : 64;
  for (std::size_t i = count; i < padded; ++i) keys[i] = static_cast<Key>(~Key{0}) ^ flip;
  if (half) {
    sort_matrix<Lanes, kRows / 2>(keys);
  } else {
    sort_matrix<Lanes, kRows>(keys);
  }
  const std::size_t rows = padded / kLanes;
  std::size_t at = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t row = 0; row < rows && at < count; ++row, ++at) {
      out[at] = keys[row * kLanes + lane] ^ flip;
    }
  }
}

template <typename Key>
void merge_halves(const Key* in, std::size_t middle, std::size_t end, Key* out) noexcept {
  std::size_t left = 0, right = middle;
  for (std::size_t at = 0; at < end; ++at) {
    const bool take_right = left >= middle || (right < end && in[right] < in[left]);
    out[at] = in[take_right ? right : left];
    right += take_right;
    left += !take_right;
  }
}

template <typename Lanes, typename Key>
VORTEX_NETWORK_TARGET void sort_up_to_128(const Key* in, std::size_t count, Key* out,
                                          Key flip) noexcept {
  if (count <= 64) {
    sort_up_to_64<Lanes>(in, count, out, flip);
    return;
  }
  Key halves[128];
  sort_up_to_64<Lanes>(in, 64, halves, flip);
  sort_up_to_64<Lanes>(in + 64, count - 64, halves + 64, flip);
  merge_halves(halves, 64, count, out);
}

}  // namespace

VORTEX_AVX2 void small_sort_u64_avx2(const std::uint64_t* in, std::size_t count,
                                     std::uint64_t* out) noexcept {
  if (count == 0) return;  // no record, no pointer
  sort_up_to_128<LanesI64>(in, count, out, std::uint64_t{1} << 63);
}

VORTEX_AVX2 void small_sort_u32_avx2(const std::uint32_t* in, std::size_t count,
                                     std::uint32_t* out) noexcept {
  if (count == 0) return;  // no record, no pointer
  sort_up_to_128<LanesU32>(in, count, out, std::uint32_t{0});
}

}}}  // namespace vortex::v0::detail

#endif
