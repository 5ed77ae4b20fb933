// What calls in C on arrays of numbers, of records and of strings are given.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "capi/stream/handle.h"
#include "vortex/array_calls.h"
#include "vortex/c.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi {

// Calls use(places) with the places as integers of their size. Throws Error(EINVAL) for others than
// 4 and 8 bytes, and for more keys than they can tell.
template <typename Use>
void with_places(void* places, std::size_t place_bytes, std::size_t count, const Use& use) {
  if (place_bytes != 4 && place_bytes != 8)
    throw Error(EINVAL, "places have 4 or 8 bytes, not " + std::to_string(place_bytes));
  expect_array(places, count, place_bytes, "the places");
  if (place_bytes == 8) return use(static_cast<std::uint64_t*>(places));
  if (count > 0 && count - 1 > UINT32_MAX)
    throw Error(EINVAL, "the places of " + std::to_string(count) + " keys do not fit in 4 bytes");
  use(static_cast<std::uint32_t*>(places));
}

template <typename Place>
void argsort_to(const detail::KeySource& keys, std::size_t count, Place* places, unsigned threads) {
  if constexpr (sizeof(Place) == 4) {
    detail::argsort_32(keys, count, places, threads);
  } else {
    detail::argsort_64(keys, count, places, threads);
  }
}

// The chunks of an array of elements, `what`, of so many bytes; `count` gets how many these are.
inline std::vector<detail::WholeChunk> pieces_of(const vtx_chunk* chunks, std::size_t chunk_count,
                                                 std::size_t element_bytes, const std::string& what,
                                                 std::size_t& count) {
  expect_array(chunks, chunk_count, sizeof *chunks, "the chunks");
  const std::string of_one = "the " + what + " of a chunk";
  std::vector<detail::WholeChunk> pieces;
  count = 0;
  for (std::size_t i = 0; i < chunk_count; ++i) {
    expect_array(chunks[i].numbers, chunks[i].count, element_bytes, of_one.c_str());
    pieces.push_back({chunks[i].numbers, chunks[i].count * element_bytes});
    count = detail::saturating_sum(count, chunks[i].count);
  }
  expect_array(pieces.data(), count, element_bytes, ("the " + what + " of all chunks").c_str());
  return pieces;
}

}}}  // namespace vortex::v0::capi
