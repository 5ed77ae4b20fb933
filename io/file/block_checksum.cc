#include "io/file/block_checksum.h"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace vortex { inline namespace v0 {

namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kStripe = kLanes * sizeof(std::uint64_t);
// Odd numbers with no pattern in their bits (Steele, Lea, Flood: SplitMix).
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
constexpr std::uint64_t kMix = 0xbf58476d1ce4e5b9;
constexpr std::uint64_t kNextKey = 0x94d049bb133111eb;

using Lanes = std::array<std::uint64_t, kLanes>;

struct Sums {
  Lanes sums;
  Lanes keys;

  Sums() noexcept {
    for (std::size_t i = 0; i < kLanes; ++i) {
      sums[i] = kGolden * (i + 1);
      keys[i] = kMix * (2 * i + 1);
    }
  }
  std::uint32_t end(std::size_t bytes) const noexcept {
    std::uint64_t all = bytes;
    for (const std::uint64_t sum : sums) {
      all = (all ^ sum) * kGolden;
      all ^= all >> 32;
    }
    return static_cast<std::uint32_t>(all);
  }
};

// A product may hide a change of one half, where the other half is zero: its neighbour has the word
// itself.
void add_plain(Sums& all, const std::byte* begin, std::size_t stripes) noexcept {
  for (; stripes > 0; --stripes, begin += kStripe) {
    Lanes words;
    std::memcpy(words.data(), begin, kStripe);
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint64_t mixed = words[i] ^ all.keys[i];
      all.sums[i] += words[i ^ 1] + (mixed & 0xffffffff) * (mixed >> 32);
      all.keys[i] += kNextKey;
    }
  }
}

#ifdef __x86_64__
#define VORTEX_CHECKSUM_AVX2 __attribute__((target("avx2")))

struct Four {
  __m256i sums;
  __m256i keys;
};

VORTEX_CHECKSUM_AVX2 inline void add_four(Four& four, const std::byte* at) noexcept {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i mixed = _mm256_xor_si256(words, four.keys);
  const __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
  const __m256i swapped = _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));
  four.sums = _mm256_add_epi64(four.sums, _mm256_add_epi64(swapped, product));
  four.keys = _mm256_add_epi64(four.keys, _mm256_set1_epi64x(static_cast<long long>(kNextKey)));
}

VORTEX_CHECKSUM_AVX2 Four load(const Sums& all, std::size_t lane) noexcept {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(&all.sums[lane])),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&all.keys[lane]))};
}

VORTEX_CHECKSUM_AVX2 void store(const Four& four, Sums& all, std::size_t lane) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(&all.sums[lane]), four.sums);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(&all.keys[lane]), four.keys);
}

VORTEX_CHECKSUM_AVX2 void add_avx2(Sums& all, const std::byte* begin,
                                   std::size_t stripes) noexcept {
  Four first = load(all, 0);
  Four second = load(all, kLanes / 2);
  for (; stripes > 0; --stripes, begin += kStripe) {
    add_four(first, begin);
    add_four(second, begin + kStripe / 2);
  }
  store(first, all, 0);
  store(second, all, kLanes / 2);
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#endif

using Add = void (*)(Sums& all, const std::byte* begin, std::size_t stripes) noexcept;

std::uint32_t checksum(Add add, const std::byte* begin, std::size_t bytes) noexcept {
  Sums all;
  const std::size_t stripes = bytes / kStripe;
  add(all, begin, stripes);
  if (const std::size_t rest = bytes % kStripe; rest != 0) {
    std::array<std::byte, kStripe> last{};
    std::memcpy(last.data(), begin + stripes * kStripe, rest);
    add_plain(all, last.data(), 1);
  }
  return all.end(bytes);
}

}  // namespace

std::uint32_t block_checksum(const std::byte* begin, std::size_t bytes) noexcept {
#ifdef __x86_64__
  if (kHasAvx2) return checksum(&add_avx2, begin, bytes);
#endif
  return checksum(&add_plain, begin, bytes);
}

std::uint32_t plain_block_checksum(const std::byte* begin, std::size_t bytes) noexcept {
  return checksum(&add_plain, begin, bytes);
}

}}  // namespace vortex::v0
