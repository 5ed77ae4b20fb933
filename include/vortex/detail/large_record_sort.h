// Records that are too large to be carried through a radix sort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "vortex/detail/export.h"
#include "vortex/detail/key.h"
#include "vortex/detail/record_codec.h"

namespace vortex::inline v0::detail {

// As in sort.h.
VORTEX_EXPORT void sort_pairs_64(void* pairs, std::size_t count, KeyCode code, bool stable,
                                 unsigned threads);

// Larger ones cost more to move at every level, and in the base case's room on the stack, than one
// visit out of order does.
inline constexpr std::size_t kMaxCarriedBytes = 256;

// Sorts the keys with the places they come from, and then moves each record once. Stable. Takes 16
// bytes a record and the memory that sorting those takes; throws std::bad_alloc with nothing moved.
template <typename T, typename KeyOf>
void sort_by_places(T* records, std::size_t count, KeyOf key_of, unsigned threads) {
  using Place = KeyValue<std::uint64_t, std::uint64_t>;
  const std::unique_ptr<Place[]> places(new Place[count]);
  const std::unique_ptr<std::byte[]> held(new std::byte[sizeof(T)]);
  for (std::size_t i = 0; i < count; ++i) places[i] = {key_of(records[i]), i};
  sort_pairs_64(places.get(), count, key_code<std::uint64_t>(Order::kAscending), true, threads);
  // Along each cycle a record moves to where it belongs, and makes its own place free.
  const auto move = [](void* to, const void* from) { std::memcpy(to, from, sizeof(T)); };
  for (std::size_t begin = 0; begin < count; ++begin) {
    if (places[begin].value == begin) continue;
    move(held.get(), &records[begin]);
    std::size_t at = begin;
    while (places[at].value != begin) {
      const std::size_t from = places[at].value;
      move(&records[at], &records[from]);
      places[at].value = at;
      at = from;
    }
    move(&records[at], held.get());
    places[at].value = at;
  }
}

}  // namespace vortex::inline v0::detail
