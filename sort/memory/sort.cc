#include "vortex/sort.h"

#include <algorithm>
#include <cstdint>

#include "sort/memory/few_values.h"
#include "vortex/detail/cpu.h"
#include "vortex/detail/kept_memory.h"
#include "vortex/detail/record_codec.h"
#include "vortex/detail/small_sort.h"

namespace vortex::inline v0 {

void release_sort_memory() noexcept { detail::KeptMemory::release(); }

}  // namespace vortex::inline v0

namespace vortex::inline v0::detail {
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

}  // namespace

void sort_keys_32(void* keys, std::size_t count, KeyCode code, unsigned threads) {
  sort_words(keys, count, detail::WordCodec<std::uint32_t>(code), threads);
}

void sort_keys_64(void* keys, std::size_t count, KeyCode code, unsigned threads) {
  sort_words(keys, count, detail::WordCodec<std::uint64_t>(code), threads);
}

void sort_half_pairs(void* pairs, std::size_t count, KeyCode code, unsigned threads) {
  sort_words(pairs, count, detail::WordCodec<std::uint64_t>(code, 32), threads);
}

void sort_pairs_64(void* pairs, std::size_t count, KeyCode code, bool stable, unsigned threads) {
  const detail::Isa isa = detail::isa_in_use();
  const detail::SmallSort<Pair64> small =
      stable ? detail::stable_small_sort_of_pairs(isa) : detail::small_sort_for<Pair64>(isa);
  sort_with(static_cast<Pair64*>(pairs), count,
            detail::SortRules<Pair64, detail::KeyOfPair>{{}, small}, detail::PairCodec(code),
            threads);
}

}  // namespace vortex::inline v0::detail
