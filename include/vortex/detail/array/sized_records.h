// Sorts of records of one size, whose keys are known when the program runs; those that are too
// large to be carried through a radix sort move once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/record/key.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Larger ones cost more to move at every level, and in the base case's room on the stack, than one
// visit out of order does.
inline constexpr std::size_t kMaxCarriedBytes = 256;

// Moves the record at places[i].value to place i, for each of `count` records of `record_bytes`
// bytes. The values are a permutation, and no longer afterwards, as are the keys. `held` is room
// for moving_bytes(): that of one record, or 64 KiB at most.
VORTEX_EXPORT void move_to_places(void* records, std::size_t record_bytes, Pair64* places,
                                  std::size_t count, void* held) noexcept;
VORTEX_EXPORT std::size_t moving_bytes(std::size_t record_bytes) noexcept;

// The same by all threads of a team. Takes eight times moving_bytes() for each of them, or once
// where records are larger than 64 KiB, and a KiB or two.
class VORTEX_EXPORT RecordMover {
 public:
  // Takes all memory; throws std::bad_alloc.
  RecordMover(std::size_t record_bytes, ThreadTeam& team);
  ~RecordMover();
  // Returns how many have been moved while all threads had some to move.
  std::size_t move_to_places(void* records, Pair64* places, std::size_t count) noexcept;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// Sorts the keys, bits_at(i), with the places they come from, lets settle(pairs, team) sort those
// of equal bits further, and then moves each record, of `bytes` bytes, once. Threads share the
// first step and the last. Stable. Takes 16 bytes a record and the memory that sorting those and
// moving takes; throws std::bad_alloc with nothing moved.
template <typename BitsAt, typename Settle>
void sort_by_places(void* records, std::size_t bytes, std::size_t count, unsigned threads,
                    const BitsAt& bits_at, const Settle& settle) {
  // A thread for so many bytes.
  constexpr std::size_t kShareBytes = std::size_t{4} << 20;
  const std::size_t shares = std::max<std::size_t>(count / (kShareBytes / bytes + 1), 1);
  const unsigned most =
      shares == 1
          ? 1
          : static_cast<unsigned>(std::min<std::size_t>(ThreadTeam::resolve(threads), shares));
  const std::unique_ptr<Pair64[]> places(new Pair64[count]);
  const auto place = [&](std::size_t part) {
    for (std::size_t i = count / most * part, end = part + 1 == most ? count : i + count / most;
         i < end; ++i) {
      places[i] = {bits_at(i), i};
    }
  };
  ThreadTeam(most).run(most, std::cref(place));
  sort_pairs_64(places.get(), count, true, threads);  // by threads of its own
  ThreadTeam team(most);
  RecordMover mover(bytes, team);
  settle(places.get(), team);
  mover.move_to_places(records, places.get(), count);
}

// The bytes of a record, wherever they lie.
template <std::size_t bytes>
struct SizedRecord {
  std::byte data[bytes];
};

template <std::size_t bytes>
class KeyOfSized {
 public:
  explicit KeyOfSized(const SortKey& key) noexcept
      : function_(key.function),
        bits_of_(key.bits_of),
        take_bits_(key.take_bits),
        encoder_(key.code, key.bits_of != nullptr ? 64 : 8 * key.place.bytes) {
    if (bits_of_ != nullptr) return;
    from_ = std::min(key.place.offset, static_cast<int>(bytes - kLoaded));
    const int before = 8 * (key.place.offset - from_), width = 8 * key.place.bytes;
    up_ = std::endian::native == std::endian::little ? 64 - before - width : before;
    down_ = 64 - width;
  }

  std::uint64_t operator()(const SizedRecord<bytes>& record) const noexcept {
    return bits_of_ != nullptr ? bits_of_(function_, &record) : bits_there(record);
  }
  void take(const SizedRecord<bytes>* records, std::size_t count,
            std::uint64_t* bits) const noexcept {
    if (take_bits_ != nullptr) return take_bits_(function_, records, count, bits);
    for (std::size_t i = 0; i < count; ++i) bits[i] = bits_there(records[i]);
  }

 private:
  static constexpr std::size_t kLoaded = std::min(bytes, sizeof(std::uint64_t));

  std::uint64_t bits_there(const SizedRecord<bytes>& record) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, record.data + from_, kLoaded);
    return encoder_.encode(word << up_) >> down_;
  }

  const void* const function_;
  std::uint64_t (*const bits_of_)(const void*, const void*) noexcept;
  void (*const take_bits_)(const void*, const void*, std::size_t, std::uint64_t*) noexcept;
  const KeyEncoder<std::uint64_t> encoder_;
  // A word of the record and how the key is cut out of it.
  int from_ = 0;
  int up_ = 0;
  int down_ = 0;
};

// Sorts words that are all different, as many as the caches hold. `other` is room for as many.
VORTEX_EXPORT void sort_distinct_words(std::uint64_t* words, std::size_t count,
                                       std::uint64_t* other,
                                       DenseSorter<std::uint64_t, KeyOfWord>::Workspace& workspace);

// Sorts records by keys that are taken once and sorted with their places; then each record moves
// once, and all of them back. For as many as the caches hold. Returns false, with nothing moved,
// where too many keys differ in their last bits only.
template <std::size_t bytes>
bool sort_by_words(SizedRecord<bytes>* records, std::size_t count,
                   const KeyOfSized<bytes>& key_of) {
  using Record = SizedRecord<bytes>;
  using Workspace = DenseSorter<std::uint64_t, KeyOfWord>::Workspace;
  constexpr std::size_t kBegin = (sizeof(Workspace) + 4095) / 4096 * 4096;
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const KeptMemory memory(kBegin + count * (kWord + std::max(bytes, kWord)), true);
  auto* const words =
      reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(memory.get()) + kBegin);
  std::uint64_t* const other = words + count;
  key_of.take(records, count, words);
  const Presorted order = presorted(words, count, KeyOfWord{});
  if (order == Presorted::kStrictlyDescending) std::reverse(records, records + count);
  if (order != Presorted::kNo) return true;
  const KeyedPlaces places = KeyedPlaces::make(words, count);
  sort_distinct_words(words, count, other, *new (memory.get()) Workspace);
  if (!places.settle(words, count, [&](std::size_t place) { return key_of(records[place]); })) {
    return false;
  }
  auto* const held = reinterpret_cast<Record*>(other);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(held + i, records + places.place(words[i]), sizeof(Record));
  }
  std::memcpy(records, held, count * sizeof(Record));
  return true;
}

// The same for at most kMaxSmallSort records, without memory.
template <std::size_t bytes>
void sort_few_by_words(SizedRecord<bytes>* records, std::size_t count,
                       const KeyOfSized<bytes>& key_of) noexcept {
  if (count < 2) return;
  std::uint64_t words[kMaxSmallSort];
  key_of.take(records, count, words);
  const Presorted order = presorted(words, count, KeyOfWord{});
  if (order == Presorted::kStrictlyDescending) std::reverse(records, records + count);
  if (order != Presorted::kNo) return;
  small_sort_by_words(records, count, records, key_of, words,
                      small_sort_for<std::uint64_t>(isa_in_use()));
}

// Sorts records of `bytes`, stably.
template <std::size_t bytes>
void sort_sized(void* array, std::size_t count, const SortKey& key, unsigned threads) {
  using Record = SizedRecord<bytes>;
  using KeyOf = KeyOfSized<bytes>;
  auto* const records = static_cast<Record*>(array);
  const KeyOf key_of(key);
  if constexpr (bytes > kMaxCarriedBytes) {
    if (sorted_or_reversed(records, count, key_of, threads)) return;
    sort_by_places(
        records, bytes, count, threads, [&](std::size_t i) { return key_of(records[i]); },
        [](Pair64*, ThreadTeam&) {});
  } else {
    using Sort = InPlaceSort<Record, KeyOf>;
    if (count <= kMaxSmallSort) return sort_few_by_words(records, count, key_of);
    if (count <= Sort::kMaxDense) {
      if (sort_by_words(records, count, key_of)) return;
    } else if (sorted_or_reversed(records, count, key_of, threads)) {
      return;
    }
    sort_in_place(records, count, SortRules<Record, KeyOf>{key_of}, NoCodec<Record>{}, threads);
  }
}

}}}  // namespace vortex::v0::detail
