#include "vortex/sort.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>

#include "sort/kernels/quick_sort.h"
#include "sort/kernels/slice_sort.h"
#include "sort/kernels/vector_sorts.h"
#include "sort/kernels/wide_loops.h"
#include "sort/memory/compiled_sorts.h"
#include "sort/memory/few_values.h"
#include "sort/memory/natural_runs.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/radix/kept_memory.h"

namespace vortex { inline namespace v0 {

void release_sort_memory() noexcept { detail::KeptMemory::release(); }

}}  // namespace vortex::v0

namespace vortex { inline namespace v0 { namespace detail {

VORTEX_SORT_IN_PLACE(std::uint32_t, KeyOfWord, WordCodec<std::uint32_t>);
VORTEX_SORT_IN_PLACE(std::uint64_t, KeyOfWord, WordCodec<std::uint64_t>);
VORTEX_SORT_IN_PLACE(Pair64, KeyOfPair, PairCodec);

namespace {

template <typename Record, typename KeyOf, typename Codec>
void sort_words(void* array, std::size_t count, const SortRules<Record, KeyOf>& rules,
                const Codec& codec, unsigned threads);

// Calls sort() for words in the codec's order.
template <typename Bits, typename Codec, typename Sort>
bool sort_encoded(Bits* words, std::size_t count, const Codec& codec, const Sort& sort) noexcept {
  return with_wide_loops([&] {
    codec.encode(words, count);
    const bool sorted = sort();
    codec.decode(words, count);
    return sorted;
  });
}

// Sorts doubles that are so few, unless they are to be sorted as words.
template <typename Bits, typename Codec>
bool sort_few_doubles([[maybe_unused]] Bits* words, [[maybe_unused]] std::size_t count,
                      [[maybe_unused]] const Codec& codec) noexcept {
#if defined(__x86_64__)
  if constexpr (sizeof(Bits) == sizeof(double)) {
    Bits zero = 0;
    codec.encode(&zero, 1);
    const bool descending = zero >> 63 == 0;
    switch (isa_in_use()) {
      case Isa::kAvx512:
        return count <= kMostBlocks * kBlockOfWords<Bits> &&
               sort_doubles_avx512(words, count, descending);
      case Isa::kAvx2:
        return count <= kMostBlocks * kBlockOfAvx2 && sort_doubles_avx2(words, count, descending);
      case Isa::kPortable:
        break;
    }
  }
#endif
  return false;
}

// Sorts words that the caches hold, unless another sort is faster. Throws std::bad_alloc with
// nothing moved.
template <typename Bits, typename Codec>
bool sort_in_caches(Bits* words, std::size_t count, bool floats, const Codec& codec) {
  const Isa isa = isa_in_use();
  const bool vectors = isa != Isa::kPortable;
  if (floats && sort_few_doubles(words, count, codec)) return true;
  if (count > kMaxQuickWords || (!vectors && count < kMinSliced)) return false;
  const bool many = count > kMaxSliced;
  if (many && (isa == Isa::kPortable || (isa == Isa::kAvx2 && sizeof(Bits) == 8))) return false;
  // Parts of many that repeat end early.
  const bool repeat = many && FewValues<Bits, Codec>::seem_to_repeat({words, count});
  if (many && isa == Isa::kAvx2 && !repeat) return false;
  // Few doubles are better cut in two: digits of values cost more than a level of that.
  const bool few_doubles = vectors && floats && sizeof(Bits) == 8 && count < 2 * kMinSliced;
  const bool slices = count >= least_words_to_slice<Bits>() && !few_doubles && !repeat;
  // To keep none would take 45 ns, as long as sorting 16 words.
  std::optional<KeptMemory> memory;
  if (slices) {
    memory.emplace(SliceRoom::bytes<Bits>(std::min(count, most_words_to_slice())), true);
  }
  const SliceRoom room{slices ? memory->get() : nullptr, floats};
  return sort_encoded(words, count, codec, [&] {
    return vectors ? quick_sort(words, count, room) : slice_sort(words, count, room);
  });
}

// Sorts more words than the caches hold, of which many are equal, by cuts that end early, where
// that is faster than distributing them: of 2^25 words, nine of ten equal, one thread takes 1.7 ns
// a word, and two that distribute them 2.2.
template <typename Bits, typename Codec>
bool sort_repeated(Bits* words, std::size_t count, const Codec& codec, unsigned threads) {
  constexpr std::size_t kMost = std::size_t{1} << 27;
  constexpr unsigned kMostThreads = 2;
  if (sizeof(Bits) == 8 || isa_in_use() != Isa::kAvx2 || count <= kMaxQuickWords || count > kMost ||
      ThreadTeam::resolve(threads) > kMostThreads ||
      !FewValues<Bits, Codec>::seem_to_repeat_often({words, count})) {
    return false;
  }
  return sort_encoded(words, count, codec, [=] { return quick_sort(words, count); });
}

// Few words are sorted by the base case in the time of a look at their order, which ends where no
// processor foresees it.
template <typename Bits, typename Codec>
bool sort_few(Bits* words, std::size_t count, const Codec& codec) noexcept {
  constexpr std::size_t kFew = 64;
  const Isa isa = isa_in_use();
  if (count > kFew || isa == Isa::kPortable) return false;
  return sort_encoded(words, count, codec, [=] {
    small_sort_for<Bits>(isa)(words, count, words);
    return true;
  });
}

template <typename Record, typename KeyOf, typename Codec>
void sort_words(void* array, std::size_t count, const SortRules<Record, KeyOf>& rules,
                const Codec& codec, unsigned threads) {
  auto* const records = static_cast<Record*>(array);
  if constexpr (kBareKeys<KeyOf>) {
    if (sort_few(records, count, codec)) return;
    if (FewValues<Record, Codec>::sort({records, count}, codec, threads) != 0) return;
  }
  const auto sort_rest = [&](Record* rest, std::size_t size) {
    sort_words(rest, size, rules, codec, threads);
  };
  if (NaturalRuns<Record, KeyOf, Codec>::sort(records, count, rules.key_of, codec, threads,
                                              std::cref(sort_rest))) {
    return;
  }
  if constexpr (kBareKeys<KeyOf>) {
    if (sort_in_caches(records, count, rules.floats, codec) ||
        sort_repeated(records, count, codec, threads)) {
      return;
    }
  }
  sort_in_place(records, count, rules, codec, threads);
}

// Whether few pairs of words are carried by one call of the base case, faster than they follow
// their places: where it takes the least of 64-bit words in one operation, as on AMD's processors.
bool carries_few_pairs() noexcept {
#if defined(__x86_64__)
  return isa_in_use() == Isa::kAvx512 && !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

// Whether so many pairs follow their places instead of being carried. There they are carried faster
// from 2^11 on, too (2^14 at 202 M/s instead of 137).
bool follow_places(std::size_t pairs) noexcept {
  if (carries_few_pairs()) return pairs <= std::size_t{1} << 11;
  return pairs <= InPlaceSort<SizedRecord<16>, KeyOfSized<16>>::kMaxDense;
}

// Sorts few pairs of words by one of them, stably and without a pass over them besides. Returns
// false, with them in the same order, where another way is to be taken.
bool sort_few_pairs([[maybe_unused]] Pair64* pairs, [[maybe_unused]] std::size_t count,
                    [[maybe_unused]] const SortKey& key) noexcept {
#if defined(__x86_64__)
  if (count > kMaxSmallSort || !carries_few_pairs()) return false;
  const PairCodec codec(key.code, key.place.offset != 0);
  if (sorted_or_reversed(pairs, count, EncodedKey(KeyOfPair{}, codec))) return true;
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  const KeyEncoder<std::uint64_t> encoder(key.code);
  const std::uint64_t always = encoder.encode(0);
  return stable_small_sort_halves_avx512(
      pairs, count, pairs,
      {key.place.offset == 0 ? 0 : 1, always, encoder.encode(kSign) ^ kSign ^ always});
#else
  return false;
#endif
}

// Sorts records of one or two words, or half of one. Returns false, with nothing done, for others,
// for such as lie where words do not, and for few whose order is to be stable: as long as the
// caches hold them they are sorted faster with their places.
bool sort_as_words(void* records, std::size_t count, std::size_t record_bytes, const SortKey& key,
                   unsigned threads) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (reinterpret_cast<std::uintptr_t>(records) % std::min(record_bytes, kWord) != 0) return false;
  const auto key_bytes = static_cast<std::size_t>(key.place.bytes);
  // Pairs in any order are carried, unless they are more than the base case takes and follow their
  // places faster.
  const bool follow = record_bytes == sizeof(Pair64) && count > kMaxSmallSort &&
                      isa_in_use() != Isa::kPortable && !carries_few_pairs();
  const bool in_any_order = !key.stable && 2 * key_bytes == record_bytes && !follow;
  if (record_bytes == sizeof(Pair64) && key_bytes == kWord && key.place.offset % 8 == 0 &&
      key.stable && sort_few_pairs(static_cast<Pair64*>(records), count, key)) {
    return true;
  }
  const bool by_places = record_bytes == kWord
                             ? count <= InPlaceSort<SizedRecord<8>, KeyOfSized<8>>::kMaxDense
                             : follow_places(count);
  if (key_bytes != record_bytes && !in_any_order && by_places) return false;
  if (with_words(record_bytes, key, [&](const auto& rules, const auto& codec) {
        sort_words(records, count, rules, codec, threads);
      })) {
    return true;
  }
  if (record_bytes != kWord || key_bytes == 0 || key_bytes > 4) return false;
  sort_words(records, count,
             SortRules<std::uint64_t, KeyOfUpperHalf>{KeyOfUpperHalf(key.place.bytes)},
             WordCodec<std::uint64_t>(key.code, key.place), threads);
  return true;
}

}  // namespace

void broken_bound(const char* line) noexcept {
  // Nothing is left to do when stderr is closed.
  if (write(STDERR_FILENO, line, std::strlen(line)) < 0) std::abort();
  std::abort();
}

std::optional<std::size_t> sort_simple_words(void* array, std::size_t count,
                                             std::size_t record_bytes, const SortKey& key,
                                             unsigned threads) {
  std::optional<std::size_t> taken;
  with_words(record_bytes, key,
             [&]<typename Record, typename KeyOf, typename Codec>(
                 const SortRules<Record, KeyOf>& rules, const Codec& codec) {
               auto* const records = static_cast<Record*>(array);
               if constexpr (kBareKeys<KeyOf>) {
                 taken = FewValues<Record, Codec>::sort({records, count}, codec, threads);
                 if (*taken != 0) return;
               }
               std::size_t for_rest = 0;
               const auto sort_rest = [&](Record* rest, std::size_t size) {
                 for_rest = sort_in_place(rest, size, rules, codec, threads);
               };
               taken = NaturalRuns<Record, KeyOf, Codec>::sort(records, count, rules.key_of, codec,
                                                               threads, std::cref(sort_rest));
               if (taken) taken = std::max(*taken, for_rest);
             });
  return taken;
}

void sort_keys_64(std::uint64_t* keys, std::size_t count, unsigned threads) {
  sort_words(keys, count, word_rules<std::uint64_t>(), WordCodec<std::uint64_t>(KeyCode{}),
             threads);
}

void sort_pairs_64(Pair64* pairs, std::size_t count, bool stable, unsigned threads) {
  sort_words(pairs, count, pair_rules(stable), PairCodec(KeyCode{}), threads);
}

void sort_distinct_words(std::uint64_t* words, std::size_t count, std::uint64_t* other,
                         DenseSorter<std::uint64_t, KeyOfWord>::Workspace& workspace) {
  if (can_slice(count)) {
    const KeptMemory room(SliceRoom::bytes<std::uint64_t>(count), true);
    const SliceRoom slices{room.get(), false};
    if (count <= most_words_to_slice() ? slice_sort(words, count, slices)
                                       : quick_sort(words, count, slices)) {
      return;
    }
  }
  // More are sorted faster by `other`.
  constexpr std::size_t kMostQuick = std::size_t{1} << 14;
  if (count <= kMostQuick && quick_sort(words, count)) return;
  const auto rules = word_rules<std::uint64_t>();
  DenseSorter<std::uint64_t, KeyOfWord>(rules, workspace).sort(words, count, other, false);
}

void sort_records(void* records, std::size_t count, std::size_t record_bytes, const SortKey& key,
                  unsigned threads) {
  // These have code of their own alone.
  if (record_bytes == 1) {
    return sort_narrow_keys(static_cast<std::uint8_t*>(records), count, key.code, threads);
  }
  if (record_bytes == 2) {
    return sort_narrow_keys(static_cast<std::uint16_t*>(records), count, key.code, threads);
  }
  if (sort_as_words(records, count, record_bytes, key, threads)) return;
  sort_compiled_size(records, count, record_bytes, key, threads);
}

}}}  // namespace vortex::v0::detail
