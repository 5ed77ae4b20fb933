#include "sort/memory/two_way_merge.h"

#include "vortex/detail/record/record_codec.h"

#if defined(__x86_64__)
// GCC 12 takes the deliberately undefined operands in its own intrinsics for mistakes of ours.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#define VORTEX_MERGE_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#endif

namespace vortex { inline namespace v0 { namespace detail {

namespace {

#if defined(__x86_64__)

// Of words: a step merges the next eight of the input whose next one is less with the greatest
// eight of those before, in registers, and the least eight go out.
struct VectorSteps {
  using KeyOf = KeyOfWord;
  struct Part : MergePart<std::uint64_t> {
    std::array<std::uint64_t, 8> held;
  };
  static constexpr std::size_t kRecords = 8;
  static constexpr std::size_t kLeast = 1;

  void begin(Part& part) const noexcept {
    const std::uint64_t*& from = *part.b < *part.a ? part.b : part.a;
    std::memcpy(part.held.data(), from, sizeof part.held);
    from += kRecords;
  }
  // One of the inputs has fewer than eight left.
  void finish(const Part& part) const noexcept {
    const bool a_is_short = part.a_end - part.a < part.b_end - part.b;
    const std::uint64_t* const few = a_is_short ? part.a : part.b;
    const std::uint64_t* const few_end = a_is_short ? part.a_end : part.b_end;
    std::array<std::uint64_t, 2 * kRecords> both;
    const std::uint64_t* const held = part.held.data();
    merge_part(MergePart<std::uint64_t>{held, held + kRecords, few, few_end, both.data()}, key_of);
    const std::uint64_t* const both_end = both.data() + kRecords + (few_end - few);
    merge_part(MergePart<std::uint64_t>{both.data(), both_end, a_is_short ? part.b : part.a,
                                        a_is_short ? part.b_end : part.a_end, part.out},
               key_of);
  }

  template <int kCount>
  VORTEX_MERGE_AVX512 void advance(Part* parts, std::size_t steps) const noexcept {
    const __m512i reversed = _mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const std::uint64_t* a[kCount];
    const std::uint64_t* b[kCount];
    std::uint64_t* out[kCount];
    __m512i held[kCount];
    for (int k = 0; k < kCount; ++k) {
      a[k] = parts[k].a;
      b[k] = parts[k].b;
      out[k] = parts[k].out;
      held[k] = _mm512_loadu_si512(parts[k].held.data());
    }
    for (std::size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < kCount; ++k) {
        const bool is_b = *b[k] < *a[k];
        const std::uint64_t* const from = is_b ? b[k] : a[k];
        b[k] += is_b ? kRecords : 0;
        a[k] += is_b ? 0 : kRecords;
        const __m512i next = _mm512_permutexvar_epi64(reversed, _mm512_loadu_si512(from));
        _mm512_storeu_si512(out[k] + i * kRecords, in_order(_mm512_min_epu64(held[k], next)));
        held[k] = in_order(_mm512_max_epu64(held[k], next));
      }
    }
    for (int k = 0; k < kCount; ++k) {
      parts[k].a = a[k];
      parts[k].b = b[k];
      parts[k].out = out[k] + steps * kRecords;
      _mm512_storeu_si512(parts[k].held.data(), held[k]);
    }
  }

  KeyOf key_of;

 private:
  // Sorts a bitonic sequence.
  VORTEX_MERGE_AVX512 __attribute__((always_inline)) static inline __m512i in_order(
      __m512i words) noexcept {
    __m512i others = _mm512_shuffle_i64x2(words, words, 0x4e);
    words = _mm512_mask_max_epu64(_mm512_min_epu64(words, others), 0xf0, words, others);
    others = _mm512_permutex_epi64(words, 0x4e);
    words = _mm512_mask_max_epu64(_mm512_min_epu64(words, others), 0xcc, words, others);
    others = _mm512_permutex_epi64(words, 0xb1);
    return _mm512_mask_max_epu64(_mm512_min_epu64(words, others), 0xaa, words, others);
  }
};

#endif

template <typename Steps, typename Item>
void merge_by(std::span<const Item> a, std::span<const Item> b, Item* out) noexcept {
  const Steps steps{};
  PartedMerge(steps).merge(a, b, out);
}

template <typename Item, typename KeyOf>
void merge_records(std::span<const Item> a, std::span<const Item> b, Item* out) noexcept {
  merge_two(a, b, out, KeyOf{});
}

}  // namespace

template <>
TwoWayMerge<std::uint64_t> two_way_merge_for<std::uint64_t>([[maybe_unused]] Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &merge_by<VectorSteps, std::uint64_t>;
#endif
  return &merge_records<std::uint64_t, KeyOfWord>;
}

template <>
TwoWayMerge<Pair64> two_way_merge_for<Pair64>(Isa /*isa*/) noexcept {
  return &merge_records<Pair64, KeyOfPair>;
}

}}}  // namespace vortex::v0::detail
