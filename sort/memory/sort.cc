#include "vortex/sort.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sort/memory/few_values.h"
#include "sort/memory/narrow_keys.h"
#include "sort/memory/sized_sorts.h"
#include "vortex/detail/array/cpu.h"
#include "vortex/detail/array/sized_records.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 {

void release_sort_memory() noexcept { detail::KeptMemory::release(); }

}}  // namespace vortex::v0

namespace vortex { inline namespace v0 { namespace detail {

namespace {

// Smaller arrays are sorted as fast as their values are found to be few.
constexpr std::size_t kMinForFewValues = 512;

template <typename Record, typename KeyOf, typename Codec>
void sort_with(Record* records, std::size_t count, const detail::SortRules<Record, KeyOf>& rules,
               const Codec& codec, unsigned threads) {
  const auto encoded_key = [&](Record record) noexcept {
    codec.encode(&record, 1);
    return rules.key_of(record);
  };
  if (detail::sorted_or_reversed(records, count, encoded_key)) return;
  detail::InPlaceSort<Record, KeyOf, Codec>::run(records, count, rules, codec, threads);
}

template <typename Bits>
void sort_words(void* words, std::size_t count, const detail::WordCodec<Bits>& codec,
                unsigned threads) {
  auto* const keys = static_cast<Bits*>(words);
  if (count >= kMinForFewValues &&
      FewValues<Bits, WordCodec<Bits>>::sort({keys, count}, codec, threads)) {
    return;
  }
  sort_with(keys, count,
            detail::SortRules<Bits, detail::KeyOfWord>{
                {}, detail::small_sort_for<Bits>(detail::isa_in_use())},
            codec, threads);
}

// Records of 8 bytes with a number of at most 4 of them as the key, stably.
void sort_halves(void* words, std::size_t count, const SortKey& key, unsigned threads) {
  sort_with(static_cast<std::uint64_t*>(words), count,
            SortRules<std::uint64_t, KeyOfUpperHalf>{KeyOfUpperHalf(key.place.bytes)},
            WordCodec<std::uint64_t>(key.code, key.place), threads);
}

void sort_pairs(void* pairs, std::size_t count, const PairCodec& codec, SmallSort<Pair64> small,
                unsigned threads) {
  sort_with(static_cast<Pair64*>(pairs), count, SortRules<Pair64, KeyOfPair>{{}, small}, codec,
            threads);
}

// Sorts records that are their key, a number. Returns false, with nothing done, for all others.
bool sort_bare_keys(void* records, std::size_t count, std::size_t record_bytes, const SortKey& key,
                    unsigned threads) {
  if (static_cast<std::size_t>(key.place.bytes) != record_bytes) return false;
  // Sizes of more than two bytes have code for any address, too.
  if (record_bytes > 2 && reinterpret_cast<std::uintptr_t>(records) % record_bytes != 0)
    return false;
  switch (record_bytes) {
    case 1:
      sort_narrow_keys(static_cast<std::uint8_t*>(records), count, key.code);
      return true;
    case 2:
      sort_narrow_keys(static_cast<std::uint16_t*>(records), count, key.code);
      return true;
    case 4:
      sort_keys_32(records, count, key.code, threads);
      return true;
    default:
      sort_keys_64(records, count, key.code, threads);
      return true;
  }
}

// Sorts records of one or two words whose key is half of them or less, where they are too many for
// the caches. Returns false, with nothing done, for all others.
bool sort_as_words(void* records, std::size_t count, std::size_t record_bytes, const SortKey& key,
                   unsigned threads) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (reinterpret_cast<std::uintptr_t>(records) % kWord != 0) return false;
  if (record_bytes == kWord && key.place.bytes > 0 && key.place.bytes <= 4) {
    if (count <= InPlaceSort<SizedRecord<8>, KeyOfSized<8>>::kMaxDense) return false;
    sort_halves(records, count, key, threads);
    return true;
  }
  if (record_bytes == 2 * kWord && key.place.bytes == 8 && key.place.offset % 8 == 0) {
    if (count <= InPlaceSort<SizedRecord<16>, KeyOfSized<16>>::kMaxDense) return false;
    sort_pairs(records, count, PairCodec(key.code, key.place.offset != 0),
               stable_small_sort_of_pairs(isa_in_use()), threads);
    return true;
  }
  return false;
}

}  // namespace

void sort_keys_32(void* keys, std::size_t count, KeyCode code, unsigned threads) {
  sort_words(keys, count, detail::WordCodec<std::uint32_t>(code), threads);
}

void sort_keys_64(void* keys, std::size_t count, KeyCode code, unsigned threads) {
  sort_words(keys, count, detail::WordCodec<std::uint64_t>(code), threads);
}

void sort_half_pairs(void* pairs, std::size_t count, KeyCode code, unsigned threads) {
  sort_words(pairs, count, detail::WordCodec<std::uint64_t>(code, {0, 4}), threads);
}

void sort_pairs_64(void* pairs, std::size_t count, KeyCode code, bool stable, unsigned threads) {
  const detail::Isa isa = detail::isa_in_use();
  const detail::SmallSort<Pair64> small =
      stable ? detail::stable_small_sort_of_pairs(isa) : detail::small_sort_for<Pair64>(isa);
  sort_pairs(pairs, count, PairCodec(code), small, threads);
}

void sort_distinct_words(std::uint64_t* words, std::size_t count, std::uint64_t* other,
                         DenseSorter<std::uint64_t, KeyOfWord>::Workspace& workspace) {
  const SortRules<std::uint64_t, KeyOfWord> rules{{}, small_sort_for<std::uint64_t>(isa_in_use())};
  DenseSorter<std::uint64_t, KeyOfWord>(rules, workspace).sort(words, count, other, false);
}

void sort_records(void* records, std::size_t count, std::size_t record_bytes, const SortKey& key,
                  unsigned threads) {
  if (sort_bare_keys(records, count, record_bytes, key, threads)) return;
  if (sort_as_words(records, count, record_bytes, key, threads)) return;
  sort_compiled_size(records, count, record_bytes, key, threads);
}

}}}  // namespace vortex::v0::detail
