// One sequence that lies in several arrays, sorted.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "vortex/detail/array/array_calls.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

namespace detail {

template <typename Chunks>
using ChunkOf = std::ranges::range_reference_t<Chunks>;
template <typename Chunks>
using RecordOfChunks = std::ranges::range_value_t<ChunkOf<Chunks>>;
template <typename T>
concept ArrayChunks = std::ranges::input_range<T> && std::ranges::contiguous_range<ChunkOf<T>> &&
    std::ranges::sized_range<ChunkOf<T>> && std::is_trivially_copyable_v<RecordOfChunks<T>>;

// Calls sort(std::span) with the records of all chunks.
template <ArrayChunks Chunks, typename Sort>
void sort_chunks_by(Chunks&& chunks, unsigned threads, const Sort& sort) {
  using T = RecordOfChunks<Chunks>;
  std::vector<WholeChunk> pieces;
  std::size_t count = 0;
  for (auto&& chunk : chunks) {
    const std::size_t size = std::ranges::size(chunk);
    pieces.push_back({std::ranges::data(chunk), size * sizeof(T)});
    count += size;
  }
  sort_joined(pieces, threads,
              [&](void* together) { sort(std::span(static_cast<T*>(together), count)); });
}

}  // namespace detail

// Sorts what lies in several arrays as if it were one: chunks keep their lengths, and the first of
// all records is the first of the first chunk that has any. Chunks are a range of arrays (a vector
// of spans or of vectors), records, options and keys those of sort():
//
//   std::vector<std::span<double>> chunks = ...;  // a chunked array of Arrow
//   vortex::sort_chunks(chunks);
//   vortex::sort_chunks(item_chunks, &Item::price, {.stable = true});
//
// The extra memory is as much as the chunks together, which are copied there and back by the
// threads that pay, and what sort() takes. Throws std::bad_alloc with nothing moved,
// or, for strings of bytes in one chunk, with the records in any order.
template <detail::ArrayChunks Chunks>
void sort_chunks(Chunks&& chunks, SortOptions options = {}) {
  detail::sort_chunks_by(chunks, options.threads, [&](auto records) { sort(records, options); });
}
template <detail::ArrayChunks Chunks, typename KeyFunction>
requires std::invocable < KeyFunction&, const detail::RecordOfChunks<Chunks>
& > void sort_chunks(Chunks&& chunks, KeyFunction key, SortOptions options = {}) {
  detail::sort_chunks_by(chunks, options.threads,
                         [&](auto records) { sort(records, std::move(key), options); });
}

}}  // namespace vortex::v0
