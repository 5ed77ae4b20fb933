// The result is divided into parts, which are merged at the same time: a merge that takes one
// record after the other waits for the comparison before, and processors have time for several
// meanwhile. While both inputs of a part have so many records left, none of the next steps ends one
// of them.
#include "sort/record/two_way_merge.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

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

namespace vortex { inline namespace v0 {

namespace {

constexpr int kParts = 4;

// What is left of two inputs, and where it goes.
template <typename Item>
struct MergePart {
  const Item* a;
  const Item* a_end;
  const Item* b;
  const Item* b_end;
  Item* out;

  std::size_t least_left() const noexcept {
    return static_cast<std::size_t>(std::min(a_end - a, b_end - b));
  }
};

template <typename Item>
Item* append_all(const Item* from, const Item* end, Item* out) noexcept {
  if (from != end) std::memcpy(static_cast<void*>(out), from, (end - from) * sizeof(Item));
  return out + (end - from);
}

// Record by record.
template <typename KeyOf, typename Item>
void merge_part(MergePart<Item> part) noexcept {
  while (const std::size_t steps = part.least_left()) {
    for (std::size_t i = 0; i < steps; ++i) {
      const bool is_b = KeyOf{}(*part.b) < KeyOf{}(*part.a);
      *part.out++ = *(is_b ? part.b : part.a);
      part.b += is_b ? 1 : 0;
      part.a += is_b ? 0 : 1;
    }
  }
  append_all(part.b, part.b_end, append_all(part.a, part.a_end, part.out));
}

// How many of the first `count` records of the result are from `a`.
template <typename KeyOf, typename Item>
std::size_t from_a(std::span<const Item> a, std::span<const Item> b, std::size_t count) noexcept {
  std::size_t low = count > b.size() ? count - b.size() : 0, high = std::min(count, a.size());
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (KeyOf{}(b[count - middle - 1]) < KeyOf{}(a[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Of any records: a step takes one.
template <typename Item, typename KeyOfItem>
struct RecordSteps {
  using KeyOf = KeyOfItem;
  using Part = MergePart<Item>;
  static constexpr std::size_t kRecords = 1;
  static constexpr std::size_t kLeast = 8;

  static void begin(Part&) noexcept {}
  static void finish(const Part& part) noexcept { merge_part<KeyOf>(part); }

  template <int kCount>
  static void advance(Part* parts, std::size_t steps) noexcept {
    const Item* a[kCount];
    const Item* b[kCount];
    Item* out[kCount];
    for (int k = 0; k < kCount; ++k) {
      a[k] = parts[k].a;
      b[k] = parts[k].b;
      out[k] = parts[k].out;
    }
    for (std::size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < kCount; ++k) {
        const auto is_b = static_cast<std::ptrdiff_t>(KeyOf{}(*b[k]) < KeyOf{}(*a[k]));
        // Which compilers would make a branch of, where records are longer than a word.
        const auto at_a = reinterpret_cast<std::uintptr_t>(a[k]);
        const auto at_b = reinterpret_cast<std::uintptr_t>(b[k]);
        const std::uintptr_t from = at_a ^ ((at_a ^ at_b) & static_cast<std::uintptr_t>(-is_b));
        out[k][i] = *reinterpret_cast<const Item*>(from);
        b[k] += is_b;
        a[k] += 1 - is_b;
      }
    }
    for (int k = 0; k < kCount; ++k)
      parts[k] = {a[k], parts[k].a_end, b[k], parts[k].b_end, out[k] + steps};
  }
};

#if defined(__x86_64__)

// Of words: a step merges the next eight of the input whose next one is less with the greatest
// eight of those before, in registers, and the least eight go out.
struct VectorSteps {
  using KeyOf = detail::KeyOfWord;
  struct Part : MergePart<std::uint64_t> {
    std::array<std::uint64_t, 8> held;
  };
  static constexpr std::size_t kRecords = 8;
  static constexpr std::size_t kLeast = 1;

  static void begin(Part& part) noexcept {
    const std::uint64_t*& from = *part.b < *part.a ? part.b : part.a;
    std::memcpy(part.held.data(), from, sizeof part.held);
    from += kRecords;
  }
  // One of the inputs has fewer than eight left.
  static void finish(const Part& part) noexcept {
    const bool a_is_short = part.a_end - part.a < part.b_end - part.b;
    const std::uint64_t* const few = a_is_short ? part.a : part.b;
    const std::uint64_t* const few_end = a_is_short ? part.a_end : part.b_end;
    std::array<std::uint64_t, 2 * kRecords> both;
    const std::uint64_t* const held = part.held.data();
    merge_part<KeyOf>(MergePart<std::uint64_t>{held, held + kRecords, few, few_end, both.data()});
    const std::uint64_t* const both_end = both.data() + kRecords + (few_end - few);
    merge_part<KeyOf>(MergePart<std::uint64_t>{both.data(), both_end, a_is_short ? part.b : part.a,
                                               a_is_short ? part.b_end : part.a_end, part.out});
  }

  template <int kCount>
  VORTEX_MERGE_AVX512 static void advance(Part* parts, std::size_t steps) noexcept {
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

// `count` parts, 1 to kParts.
template <typename Steps>
void advance_all(typename Steps::Part* parts, int count, std::size_t steps) noexcept {
  static_assert(kParts == 4);
  switch (count) {
    case 4:
      return Steps::template advance<4>(parts, steps);
    case 3:
      return Steps::template advance<3>(parts, steps);
    case 2:
      return Steps::template advance<2>(parts, steps);
    default:
      return Steps::template advance<1>(parts, steps);
  }
}

template <typename Steps, typename Item>
void merge_in_parts(std::span<const Item> a, std::span<const Item> b, Item* out) noexcept {
  using KeyOf = typename Steps::KeyOf;
  std::array<typename Steps::Part, kParts> parts;
  int count = 0;
  const std::size_t all = a.size() + b.size();
  for (std::size_t i = 0, a_done = 0, done = 0; i < kParts; ++i) {
    const std::size_t end = all * (i + 1) / kParts;
    const std::size_t a_end = from_a<KeyOf>(a, b, end);
    auto& part = parts[static_cast<std::size_t>(count)];
    static_cast<MergePart<Item>&>(part) = {a.data() + a_done, a.data() + a_end,
                                           b.data() + (done - a_done), b.data() + (end - a_end),
                                           out + done};
    a_done = a_end;
    done = end;
    if (part.least_left() / Steps::kRecords <= Steps::kLeast) {
      merge_part<KeyOf>(static_cast<const MergePart<Item>&>(part));
    } else {
      Steps::begin(part);
      ++count;
    }
  }
  while (count > 0) {
    std::size_t steps = std::numeric_limits<std::size_t>::max();
    for (int k = 0; k < count;) {
      auto& part = parts[static_cast<std::size_t>(k)];
      const std::size_t here = part.least_left() / Steps::kRecords;
      if (here < Steps::kLeast) {
        Steps::finish(part);
        part = parts[static_cast<std::size_t>(--count)];
      } else {
        steps = std::min(steps, here);
        ++k;
      }
    }
    if (count > 0) advance_all<Steps>(parts.data(), count, steps);
  }
}

}  // namespace

template <>
TwoWayMerge<std::uint64_t> two_way_merge_for<std::uint64_t>(
    [[maybe_unused]] detail::Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == detail::Isa::kAvx512) return &merge_in_parts<VectorSteps, std::uint64_t>;
#endif
  return &merge_in_parts<RecordSteps<std::uint64_t, detail::KeyOfWord>, std::uint64_t>;
}

template <>
TwoWayMerge<Pair64> two_way_merge_for<Pair64>(detail::Isa /*isa*/) noexcept {
  return &merge_in_parts<RecordSteps<Pair64, detail::KeyOfPair>, Pair64>;
}

}}  // namespace vortex::v0
