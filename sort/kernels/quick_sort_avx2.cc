// Quicksort with AVX2.
#include <cstddef>
#include <cstdint>

#include "sort/kernels/vector_sorts.h"

#if defined(__x86_64__)

#include "sort/kernels/avx2_lanes.h"
#include "sort/kernels/cut_in_two.h"

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Masks have a bit for each 32 bits of a register, so that one table of orders serves words of both
// sizes.
template <typename Cut, typename Word>
struct CutOfAvx2 {
  using Bits = Word;
  using Vector = __m256i;
  static constexpr std::size_t kLanes = sizeof(Vector) / sizeof(Bits), kBlock = kBlockOfAvx2;
  static constexpr unsigned kBitsOfLane = sizeof(Bits) / 4;

  VORTEX_NETWORK_TARGET static Vector load(const void* at) noexcept {
    return _mm256_loadu_si256(static_cast<const Vector*>(at));
  }
  VORTEX_NETWORK_TARGET static void cut(Vector v, Vector pivot, Gap<Bits>& gap) noexcept {
    const unsigned lower = Cut::lower(v, pivot);
    const Vector cut = lower_first(v, lower);
    store(gap.begin, cut);
    store(gap.end() - kLanes, cut);
    gap.shrink(kLanes, lanes_of(lower));
  }
  // By a loop: a store by a mask takes AMD's processors as long for words of 32 bits and longer for
  // others.
  VORTEX_NETWORK_TARGET static void store_some(Vector v, unsigned wanted, Bits* at) noexcept {
    alignas(Vector) Bits some[kLanes];
    store(some, lower_first(v, wanted));
    const int size = lanes_of(wanted);
    for (int i = 0; i < size; ++i) at[i] = some[i];
  }

 private:
  VORTEX_NETWORK_TARGET static int lanes_of(unsigned mask) noexcept {
    return __builtin_popcount(mask) / static_cast<int>(kBitsOfLane);
  }
  VORTEX_NETWORK_TARGET static void store(Bits* at, Vector v) noexcept {
    _mm256_storeu_si256(reinterpret_cast<Vector*>(at), v);
  }
};

struct CutU64 : CutOfAvx2<CutU64, std::uint64_t> {
  VORTEX_NETWORK_TARGET static Vector all(Bits word) noexcept {
    return LanesU64::flipped(LanesU64::all(word));
  }
  VORTEX_NETWORK_TARGET static unsigned lower(Vector v, Vector pivot) noexcept {
    const Vector greater = _mm256_cmpgt_epi64(LanesU64::flipped(v), pivot);
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(greater))) ^ 0xff;
  }
  VORTEX_NETWORK_TARGET static Vector gather(const Bits* words, std::size_t apart) noexcept {
    const auto word = [=](std::size_t i) { return static_cast<long long>(words[i * apart]); };
    return LanesU64::flipped(_mm256_setr_epi64x(word(0), word(1), word(2), word(3)));
  }
  VORTEX_NETWORK_TARGET static Vector middle(Vector a, Vector b, Vector c) noexcept {
    LanesU64::exchange(a, b);
    LanesU64::exchange(b, c);
    LanesU64::exchange(a, b);
    return b;
  }
  VORTEX_NETWORK_TARGET static Bits middle_of_lanes(Vector v) noexcept {
    v = middle(v, _mm256_permute4x64_epi64(v, 0x39), _mm256_permute4x64_epi64(v, 0x4e));
    return static_cast<Bits>(_mm_cvtsi128_si64(_mm256_castsi256_si128(v))) ^ LanesU64::kFlip;
  }
  static void sort_blocks(Bits* words, std::size_t count) noexcept {
    small_sort_u64_avx2(words, count, words);
  }
};

struct CutU32 : CutOfAvx2<CutU32, std::uint32_t> {
  VORTEX_NETWORK_TARGET static Vector all(Bits word) noexcept { return LanesU32::all(word); }
  VORTEX_NETWORK_TARGET static unsigned lower(Vector v, Vector pivot) noexcept {
    const Vector lower = _mm256_cmpeq_epi32(_mm256_min_epu32(v, pivot), v);
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(lower)));
  }
  VORTEX_NETWORK_TARGET static Vector gather(const Bits* words, std::size_t apart) noexcept {
    const auto word = [=](std::size_t i) { return static_cast<int>(words[i * apart]); };
    return _mm256_setr_epi32(word(0), word(1), word(2), word(3), word(4), word(5), word(6),
                             word(7));
  }
  VORTEX_NETWORK_TARGET static Vector middle(Vector a, Vector b, Vector c) noexcept {
    const Vector low = _mm256_min_epu32(a, b), high = _mm256_max_epu32(a, b);
    return _mm256_max_epu32(low, _mm256_min_epu32(high, c));
  }
  VORTEX_NETWORK_TARGET static Bits middle_of_lanes(Vector v) noexcept {
    const Vector by_three = _mm256_setr_epi32(3, 4, 5, 6, 7, 0, 1, 2);
    const Vector once = _mm256_permutevar8x32_epi32(v, by_three);
    v = middle(v, once, _mm256_permutevar8x32_epi32(once, by_three));
    v = middle(v, _mm256_shuffle_epi32(v, 0x39), _mm256_shuffle_epi32(v, 0x4e));
    return static_cast<Bits>(_mm_cvtsi128_si32(_mm256_castsi256_si128(v)));
  }
  static void sort_blocks(Bits* words, std::size_t count) noexcept {
    small_sort_u32_avx2(words, count, words);
  }
};

}  // namespace

bool quick_sort_avx2(std::uint32_t* words, std::size_t count, int levels,
                     const SliceRoom& room) noexcept {
  return sort_by_blocks_or_cuts<CutU32>(words, count, levels, room);
}
bool quick_sort_avx2(std::uint64_t* words, std::size_t count, int levels,
                     const SliceRoom& room) noexcept {
  return sort_by_blocks_or_cuts<CutU64>(words, count, levels, room);
}

}}}  // namespace vortex::v0::detail

#endif
