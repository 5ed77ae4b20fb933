// Records that are too large to be carried through a radix sort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "vortex/detail/record/key.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Larger ones cost more to move at every level, and in the base case's room on the stack, than one
// visit out of order does.
inline constexpr std::size_t kMaxCarriedBytes = 256;

// Moves the record at places[i].value to place i, for each of `count` records of `bytes` bytes. The
// values are a permutation, and no longer afterwards. `held` is room for one record.
inline void move_to_places(void* records, std::size_t bytes, Pair64* places, std::size_t count,
                           void* held) noexcept {
  const auto record = [=](std::size_t i) { return static_cast<std::byte*>(records) + i * bytes; };
  // Along each cycle a record moves to where it belongs, and makes its own place free.
  for (std::size_t begin = 0; begin < count; ++begin) {
    if (places[begin].value == begin) continue;
    std::memcpy(held, record(begin), bytes);
    std::size_t at = begin;
    while (places[at].value != begin) {
      const std::size_t from = places[at].value;
      std::memcpy(record(at), record(from), bytes);
      places[at].value = at;
      at = from;
    }
    std::memcpy(record(at), held, bytes);
    places[at].value = at;
  }
}

// Sorts the keys with the places they come from, and then moves each record once. Stable. Takes 16
// bytes a record and the memory that sorting those takes; throws std::bad_alloc with nothing moved.
template <typename T, typename KeyOf>
void sort_by_places(T* records, std::size_t count, KeyOf key_of, unsigned threads) {
  const std::unique_ptr<Pair64[]> places(new Pair64[count]);
  const std::unique_ptr<std::byte[]> held(new std::byte[sizeof(T)]);
  for (std::size_t i = 0; i < count; ++i) places[i] = {key_of(records[i]), i};
  sort_pairs_64(places.get(), count, true, threads);
  move_to_places(records, sizeof(T), places.get(), count, held.get());
}

}}}  // namespace vortex::v0::detail
