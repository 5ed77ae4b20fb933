// The sorts that the library compiles: of numbers and pairs of them, as words, and, in a file of
// their own, of records of usual sizes. One of a size is as much code as one of pairs, and takes as
// long to compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

template <typename Bits>
SortRules<Bits, KeyOfWord> word_rules(bool floats = false) noexcept {
  return {{}, small_sort_for<Bits>(isa_in_use()), nullptr, floats};
}
inline SortRules<Pair64, KeyOfPair> pair_rules(bool stable, bool floats = false) noexcept {
  return {{},
          stable ? stable_small_sort_of_pairs(isa_in_use()) : small_sort_for<Pair64>(isa_in_use()),
          nullptr,
          floats};
}

// Calls use(rules, codec) for records that are sorted so: those that are their key, of 4 or 8
// bytes; those of 8 bytes with a key of 4, unless their order is to be stable; and those of 16
// whose first or second half is their key. Returns whether they are such.
template <typename Use>
bool with_words(std::size_t record_bytes, const SortKey& key, const Use& use) {
  const auto key_bytes = static_cast<std::size_t>(key.place.bytes);
  const bool floats = key.code.kind == KeyKind::kFloat;
  if (record_bytes == 4 && key_bytes == 4) {
    use(word_rules<std::uint32_t>(floats), WordCodec<std::uint32_t>(key.code));
  } else if (record_bytes == 8 && (key_bytes == 8 || (key_bytes == 4 && !key.stable))) {
    use(word_rules<std::uint64_t>(floats && key_bytes == 8),
        WordCodec<std::uint64_t>(key.code, key.place));
  } else if (record_bytes == 16 && key_bytes == 8 && key.place.offset % 8 == 0) {
    use(pair_rules(key.stable, floats), PairCodec(key.code, key.place.offset != 0));
  } else {
    return false;
  }
  return true;
}

// Compiled once, for this library and the one with vanishing arrays.
#define VORTEX_SORT_IN_PLACE(Record, KeyOf, Codec)  \
  template VORTEX_EXPORT std::size_t sort_in_place( \
      Record*, std::size_t, const SortRules<Record, KeyOf>&, const Codec&, unsigned)
extern VORTEX_SORT_IN_PLACE(std::uint32_t, KeyOfWord, WordCodec<std::uint32_t>);
extern VORTEX_SORT_IN_PLACE(std::uint64_t, KeyOfWord, WordCodec<std::uint64_t>);
extern VORTEX_SORT_IN_PLACE(Pair64, KeyOfPair, PairCodec);

// Sorts records that with_words() knows if they are few runs, or are their key and have few values,
// and returns the bytes that it took, at most. None: they need another sort, and nothing has
// changed.
VORTEX_EXPORT std::optional<std::size_t> sort_simple_words(void* array, std::size_t count,
                                                           std::size_t record_bytes,
                                                           const SortKey& key, unsigned threads);

// Sorts records of one of kCompiledSizes by any key, as sort_records() does.
void sort_compiled_size(void* records, std::size_t count, std::size_t record_bytes,
                        const SortKey& key, unsigned threads);

}}}  // namespace vortex::v0::detail
