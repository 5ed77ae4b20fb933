// The base case with AVX-512: up to 128 records, or 256 of 32 bits, in up to 16 registers.
#include "sort/kernels/vector_sorts.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sort/kernels/avx512_lanes.h"
#include "vortex/detail/array/small_sort.h"

#if defined(__x86_64__)

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Transposes 8 registers of 8 words: word l of register r becomes word r of register l.
VORTEX_NETWORK_TARGET void transpose_8x8(__m512i* v) noexcept {
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  __m512i quad[8];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m512i* in = v + 4 * half;
    const __m512i even_01 = _mm512_unpacklo_epi64(in[0], in[1]);
    const __m512i odd_01 = _mm512_unpackhi_epi64(in[0], in[1]);
    const __m512i even_23 = _mm512_unpacklo_epi64(in[2], in[3]);
    const __m512i odd_23 = _mm512_unpackhi_epi64(in[2], in[3]);
    quad[4 * half + 0] = _mm512_permutex2var_epi64(even_01, low, even_23);
    quad[4 * half + 1] = _mm512_permutex2var_epi64(odd_01, low, odd_23);
    quad[4 * half + 2] = _mm512_permutex2var_epi64(even_01, high, even_23);
    quad[4 * half + 3] = _mm512_permutex2var_epi64(odd_01, high, odd_23);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_shuffle_i64x2(quad[i], quad[4 + i], 0x44);
    v[4 + i] = _mm512_shuffle_i64x2(quad[i], quad[4 + i], 0xee);
  }
}

// Column after column of 4 registers of 8 words into 4 registers in order.
VORTEX_NETWORK_TARGET void columns_of_4(__m512i* v) noexcept {
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i even_01 = _mm512_unpacklo_epi64(v[0], v[1]);
  const __m512i odd_01 = _mm512_unpackhi_epi64(v[0], v[1]);
  const __m512i even_23 = _mm512_unpacklo_epi64(v[2], v[3]);
  const __m512i odd_23 = _mm512_unpackhi_epi64(v[2], v[3]);
  const __m512i columns_02 = _mm512_permutex2var_epi64(even_01, low, even_23);
  const __m512i columns_13 = _mm512_permutex2var_epi64(odd_01, low, odd_23);
  const __m512i columns_46 = _mm512_permutex2var_epi64(even_01, high, even_23);
  const __m512i columns_57 = _mm512_permutex2var_epi64(odd_01, high, odd_23);
  v[0] = _mm512_shuffle_i64x2(columns_02, columns_13, 0x44);
  v[1] = _mm512_shuffle_i64x2(columns_02, columns_13, 0xee);
  v[2] = _mm512_shuffle_i64x2(columns_46, columns_57, 0x44);
  v[3] = _mm512_shuffle_i64x2(columns_46, columns_57, 0xee);
}

// Column after column of R registers of 8 words, into `out` in order.
template <int R>
VORTEX_NETWORK_TARGET void columns_in_order(__m512i* v, __m512i* out) noexcept {
  if constexpr (R == 1) {
    out[0] = v[0];
  } else if constexpr (R == 2) {
    out[0] = _mm512_permutex2var_epi64(v[0], _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), v[1]);
    out[1] = _mm512_permutex2var_epi64(v[0], _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), v[1]);
  } else if constexpr (R == 4) {
    columns_of_4(v);
    for (int i = 0; i < 4; ++i) out[i] = v[i];
  } else if constexpr (R == 8) {
    transpose_8x8(v);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) out[i] = v[i];
  } else {
    transpose_8x8(v);
    transpose_8x8(v + 8);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      out[2 * i] = v[i];
      out[2 * i + 1] = v[8 + i];
    }
  }
}

// The first kWhole registers are full, and loaded and stored whole.
template <typename Lanes, int R, int kWhole>
VORTEX_NETWORK_TARGET void sort_u64(const std::uint64_t* in, std::size_t count,
                                    std::uint64_t* out) noexcept {
  const __m512i most = _mm512_set1_epi64(static_cast<long long>(Lanes::kGreatest));
  __m512i v[R], ordered[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    v[i] = i < kWhole ? _mm512_loadu_si512(in + 8 * i)
                      : _mm512_mask_loadu_epi64(most, mask_of<__mmask8>(count, i), in + 8 * i);
  }
  sort_registers<Lanes, R>(v);
  columns_in_order<R>(v, ordered);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    if (i < kWhole) {
      _mm512_storeu_si512(out + 8 * i, ordered[i]);
    } else {
      _mm512_mask_storeu_epi64(out + 8 * i, mask_of<__mmask8>(count, i), ordered[i]);
    }
  }
}

template <typename Lanes>
VORTEX_KERNEL void sort_few_u64(const std::uint64_t* in, std::size_t count,
                                std::uint64_t* out) noexcept {
  if (count > 64) {
    sort_u64<Lanes, 16, 8>(in, count, out);
  } else if (count > 32) {
    sort_u64<Lanes, 8, 4>(in, count, out);
  } else if (count > 16) {
    sort_u64<Lanes, 4, 2>(in, count, out);
  } else if (count > 8) {
    sort_u64<Lanes, 2, 1>(in, count, out);
  } else {
    sort_u64<Lanes, 1, 0>(in, count, out);
  }
}

// Column after column of R registers of 16 words of 32 bits, into `out` in order.
template <int R>
VORTEX_NETWORK_TARGET void columns_in_order_u32(const __m512i* v, __m512i* out) noexcept {
  // Quarter q of quads[c] are rows 4 r ... 4 r + 3 of column 4 q + c.
  __m512i quads[R];
#pragma GCC unroll 2
  for (int r = 0; r < R; r += 4) {
    const __m512i low_01 = _mm512_unpacklo_epi32(v[r], v[r + 1]);
    const __m512i high_01 = _mm512_unpackhi_epi32(v[r], v[r + 1]);
    const __m512i low_23 = _mm512_unpacklo_epi32(v[r + 2], v[r + 3]);
    const __m512i high_23 = _mm512_unpackhi_epi32(v[r + 2], v[r + 3]);
    quads[r + 0] = _mm512_unpacklo_epi64(low_01, low_23);
    quads[r + 1] = _mm512_unpackhi_epi64(low_01, low_23);
    quads[r + 2] = _mm512_unpacklo_epi64(high_01, high_23);
    quads[r + 3] = _mm512_unpackhi_epi64(high_01, high_23);
  }
  if constexpr (R == 4) {
    const __m512i low_01 = _mm512_shuffle_i64x2(quads[0], quads[1], 0x44);
    const __m512i high_01 = _mm512_shuffle_i64x2(quads[0], quads[1], 0xee);
    const __m512i low_23 = _mm512_shuffle_i64x2(quads[2], quads[3], 0x44);
    const __m512i high_23 = _mm512_shuffle_i64x2(quads[2], quads[3], 0xee);
    out[0] = _mm512_shuffle_i64x2(low_01, low_23, 0x88);
    out[1] = _mm512_shuffle_i64x2(low_01, low_23, 0xdd);
    out[2] = _mm512_shuffle_i64x2(high_01, high_23, 0x88);
    out[3] = _mm512_shuffle_i64x2(high_01, high_23, 0xdd);
  } else {
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i low_columns[4], high_columns[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      low_columns[c] = _mm512_permutex2var_epi64(quads[c], low, quads[4 + c]);
      high_columns[c] = _mm512_permutex2var_epi64(quads[c], high, quads[4 + c]);
    }
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) {
      out[0 + c] = _mm512_shuffle_i64x2(low_columns[2 * c], low_columns[2 * c + 1], 0x44);
      out[2 + c] = _mm512_shuffle_i64x2(low_columns[2 * c], low_columns[2 * c + 1], 0xee);
      out[4 + c] = _mm512_shuffle_i64x2(high_columns[2 * c], high_columns[2 * c + 1], 0x44);
      out[6 + c] = _mm512_shuffle_i64x2(high_columns[2 * c], high_columns[2 * c + 1], 0xee);
    }
  }
}

VORTEX_NETWORK_TARGET void columns_of_2_in_order_u32(const __m512i* v, __m512i* out) noexcept {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  out[0] = _mm512_permutex2var_epi32(v[0], low, v[1]);
  out[1] = _mm512_permutex2var_epi32(v[0], _mm512_add_epi32(low, _mm512_set1_epi32(8)), v[1]);
}
VORTEX_NETWORK_TARGET void columns_of_16_in_order_u32(const __m512i* v, __m512i* out) noexcept {
  __m512i upper[8], lower[8];
  columns_in_order_u32<8>(v, upper);
  columns_in_order_u32<8>(v + 8, lower);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    out[2 * i] = _mm512_shuffle_i64x2(upper[i], lower[i], 0x44);
    out[2 * i + 1] = _mm512_shuffle_i64x2(upper[i], lower[i], 0xee);
  }
}

template <int R, int kWhole>
VORTEX_NETWORK_TARGET void sort_u32(const std::uint32_t* in, std::size_t count,
                                    std::uint32_t* out) noexcept {
  const __m512i most = _mm512_set1_epi64(-1);
  __m512i v[R], ordered[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    v[i] = i < kWhole ? _mm512_loadu_si512(in + 16 * i)
                      : _mm512_mask_loadu_epi32(most, mask_of<__mmask16>(count, i), in + 16 * i);
  }
  sort_registers<LanesU32, R>(v);
  if constexpr (R == 1) {
    ordered[0] = v[0];
  } else if constexpr (R == 2) {
    columns_of_2_in_order_u32(v, ordered);
  } else if constexpr (R == 16) {
    columns_of_16_in_order_u32(v, ordered);
  } else {
    columns_in_order_u32<R>(v, ordered);
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    if (i < kWhole) {
      _mm512_storeu_si512(out + 16 * i, ordered[i]);
    } else {
      _mm512_mask_storeu_epi32(out + 16 * i, mask_of<__mmask16>(count, i), ordered[i]);
    }
  }
}

// Padding has the largest key, and nothing but that tells it from a record. Returns false, with
// nothing written, when a record has that key, too.
template <int R>
VORTEX_NETWORK_TARGET bool sort_pair64(const Pair64* in, std::size_t count, Pair64* out) noexcept {
  const __m512i most = _mm512_set1_epi64(-1);
  const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
  const auto* words = reinterpret_cast<const std::uint64_t*>(in);
  LanesPair64::Vector v[R];
  std::size_t largest = 0;
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    const __m512i first =
        _mm512_mask_loadu_epi64(most, mask_of<__mmask8>(2 * count, 2 * i), words + 16 * i);
    const __m512i second =
        _mm512_mask_loadu_epi64(most, mask_of<__mmask8>(2 * count, 2 * i + 1), words + 16 * i + 8);
    v[i].keys = _mm512_permutex2var_epi64(first, even, second);
    v[i].values = _mm512_permutex2var_epi64(first, odd, second);
    largest += static_cast<unsigned>(__builtin_popcount(_mm512_cmpeq_epi64_mask(v[i].keys, most)));
  }
  if (largest != 8 * R - count) return false;
  sort_registers<LanesPair64, R>(v);
  __m512i keys[R], values[R], ordered_keys[R], ordered_values[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    keys[i] = v[i].keys;
    values[i] = v[i].values;
  }
  columns_in_order<R>(keys, ordered_keys);
  columns_in_order<R>(values, ordered_values);
  const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  auto* to = reinterpret_cast<std::uint64_t*>(out);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    _mm512_mask_storeu_epi64(to + 16 * i, mask_of<__mmask8>(2 * count, 2 * i),
                             _mm512_permutex2var_epi64(ordered_keys[i], low, ordered_values[i]));
    _mm512_mask_storeu_epi64(to + 16 * i + 8, mask_of<__mmask8>(2 * count, 2 * i + 1),
                             _mm512_permutex2var_epi64(ordered_keys[i], high, ordered_values[i]));
  }
  return true;
}

constexpr int kPlaceBits = std::bit_width(kMaxSmallSort - 1);
constexpr std::uint64_t kPlaces = kMaxSmallSort - 1;

// Whether two neighbours among sorted words differ in nothing but their places.
template <int R>
VORTEX_NETWORK_TARGET bool any_same_part(const __m512i* words, std::size_t count) noexcept {
  const __m512i places = _mm512_set1_epi64(kPlaces);
  unsigned same = 0;
  __m512i before = places;
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    const __m512i neighbours = _mm512_alignr_epi64(words[i], before, 7);
    const auto there = static_cast<__mmask8>(mask_of<__mmask8>(count, i) & (i == 0 ? ~1u : ~0u));
    same |= _mm512_mask_cmple_epu64_mask(there, _mm512_xor_si512(words[i], neighbours), places);
    before = words[i];
  }
  return same != 0;
}

// Words of a key's upper bits and the pair's place, sorted; the pairs follow. Returns false, with
// nothing written, where bits that a word has no room for might decide.
template <int R>
VORTEX_NETWORK_TARGET bool sort_pair64_stably(const Pair64* in, std::size_t count, Pair64* out,
                                              const KeysOfPairs& keys) noexcept {
  constexpr int kWhole = R == 4 ? 0 : R / 2;  // registers of pairs that are all there
  const __m512i most = _mm512_set1_epi64(-1);
  const __m512i halves =
      _mm512_add_epi64(_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_set1_epi64(keys.half));
  const __m512i always = _mm512_set1_epi64(static_cast<long long>(keys.always));
  const __m512i when_negative = _mm512_set1_epi64(static_cast<long long>(keys.when_negative));
  const auto* words = reinterpret_cast<const std::uint64_t*>(in);
  __m512i v[R], ordered[R];
  __m512i lows = most, highs = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    const auto load = [=](int k) VORTEX_KERNEL {
      return i < kWhole
                 ? _mm512_loadu_si512(words + 8 * k)
                 : _mm512_mask_loadu_epi64(most, mask_of<__mmask8>(2 * count, k), words + 8 * k);
    };
    const __m512i bits = _mm512_permutex2var_epi64(load(2 * i), halves, load(2 * i + 1));
    // always ^ bits ^ (when_negative where the sign is set)
    v[i] = _mm512_ternarylogic_epi64(
        always, bits, _mm512_and_si512(_mm512_srai_epi64(bits, 63), when_negative), 0x96);
    const auto there = i < kWhole ? static_cast<__mmask8>(~0u) : mask_of<__mmask8>(count, i);
    lows = _mm512_mask_min_epu64(lows, there, lows, v[i]);
    highs = _mm512_mask_max_epu64(highs, there, highs, v[i]);
  }
  const std::uint64_t low = _mm512_reduce_min_epu64(lows);
  const auto width = static_cast<int>(std::bit_width(_mm512_reduce_max_epu64(highs) - low));
  const int dropped = width + kPlaceBits > 64 ? width + kPlaceBits - 64 : 0;
  const __m128i shift = _mm_cvtsi32_si128(dropped);
  const __m512i lowest = _mm512_set1_epi64(static_cast<long long>(low));
  const __m512i lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  // What is no pair has the largest word, which a pair has only at the last place there can be.
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    const __m512i bits = _mm512_srl_epi64(_mm512_sub_epi64(v[i], lowest), shift);
    const __m512i word = _mm512_or_si512(_mm512_slli_epi64(bits, kPlaceBits),
                                         _mm512_add_epi64(lanes, _mm512_set1_epi64(8 * i)));
    v[i] = _mm512_mask_mov_epi64(most, mask_of<__mmask8>(count, i), word);
  }
  sort_registers<LanesU64, R>(v);
  columns_in_order<R>(v, ordered);
  alignas(64) std::uint64_t sorted[8 * R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) _mm512_store_si512(sorted + 8 * i, ordered[i]);
  if (dropped != 0 && any_same_part<R>(ordered, count)) return false;
  Pair64 held[8 * R];
  const Pair64* from = in;
  if (in == out) from = static_cast<Pair64*>(std::memcpy(held, in, count * sizeof(Pair64)));
  for (std::size_t i = 0; i < count; ++i) out[i] = from[sorted[i] & kPlaces];
  return true;
}

}  // namespace

VORTEX_KERNEL void small_sort_u64_avx512(const std::uint64_t* in, std::size_t count,
                                         std::uint64_t* out) noexcept {
  if (count == 0) return;  // no record, no pointer
  if (__builtin_cpu_is("intel")) {
    sort_few_u64<ComparedLanesU64>(in, count, out);
  } else {
    sort_few_u64<LanesU64>(in, count, out);
  }
}

VORTEX_KERNEL void small_sort_f64_avx512(const std::uint64_t* in, std::size_t count,
                                         std::uint64_t* out) noexcept {
  if (count > 64) return sort_u64<LanesF64, 16, 8>(in, count, out);
  sort_u64<LanesF64, 8, 0>(in, count, out);
}

VORTEX_KERNEL void small_sort_u32_avx512(const std::uint32_t* in, std::size_t count,
                                         std::uint32_t* out) noexcept {
  if (count == 0) return;  // no record, no pointer
  if (count > kMaxSmallSort) {
    sort_u32<16, 8>(in, count, out);
  } else if (count > 64) {
    sort_u32<8, 4>(in, count, out);
  } else if (count > 32) {
    sort_u32<4, 2>(in, count, out);
  } else if (count > 16) {
    sort_u32<2, 1>(in, count, out);
  } else {
    sort_u32<1, 0>(in, count, out);
  }
}

VORTEX_KERNEL void small_sort_pair64_avx512(const Pair64* in, std::size_t count,
                                            Pair64* out) noexcept {
  if (count == 0) return;  // no record, no pointer
  const bool sorted = count > 64   ? sort_pair64<16>(in, count, out)
                      : count > 32 ? sort_pair64<8>(in, count, out)
                                   : sort_pair64<4>(in, count, out);
  if (!sorted) {
    small_sort_stable(in, count, out, [](const Pair64& record) { return record.key; });
  }
}

VORTEX_KERNEL bool stable_small_sort_halves_avx512(const Pair64* in, std::size_t count, Pair64* out,
                                                   const KeysOfPairs& keys) noexcept {
  return count > 64   ? sort_pair64_stably<16>(in, count, out, keys)
         : count > 32 ? sort_pair64_stably<8>(in, count, out, keys)
                      : sort_pair64_stably<4>(in, count, out, keys);
}

VORTEX_KERNEL void stable_small_sort_pair64_avx512(const Pair64* in, std::size_t count,
                                                   Pair64* out) noexcept {
  if (count == 0) return;  // no record, no pointer
  if (stable_small_sort_halves_avx512(in, count, out, {})) return;
  small_sort_by_place(
      in, count, out, [](const Pair64& pair) { return pair.key; }, &small_sort_u64_avx512);
}

}}}  // namespace vortex::v0::detail

#endif
