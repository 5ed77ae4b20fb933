// What the library compiles of the calls on arrays (array_calls.h), for types that are told when
// the program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "vortex/detail/record/sort_key.h"
#include "vortex/sort.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Throws std::invalid_argument where places have less room than there are keys, or are of a type
// that ends at `most`, before the last of them. Code without exceptions may include what calls it.
VORTEX_EXPORT void expect_places(std::size_t room, std::size_t count, std::uint64_t most);
// Throws std::invalid_argument where a length is not `count`.
VORTEX_EXPORT void expect_lengths(std::span<const std::size_t> lengths, std::size_t count);

// The places are integers of 4 and of 8 bytes.
VORTEX_EXPORT void argsort_32(const KeySource& keys, std::size_t count, void* places,
                              unsigned threads);
VORTEX_EXPORT void argsort_64(const KeySource& keys, std::size_t count, void* places,
                              unsigned threads);

// strings[place], by at(strings, place).
struct StringSource {
  const void* strings;
  std::string_view (*at)(const void* strings, std::size_t place) noexcept;
};
VORTEX_EXPORT void argsort_strings_32(const StringSource& strings, std::size_t count, void* places,
                                      const SortOptions& options);
VORTEX_EXPORT void argsort_strings_64(const StringSource& strings, std::size_t count, void* places,
                                      const SortOptions& options);

// An array of as many values as there are keys, of `bytes` each.
struct Column {
  void* values;
  std::size_t bytes;
};
VORTEX_EXPORT void sort_by_key(void* keys, const NumberForm& form, std::size_t count,
                               std::span<const Column> columns, unsigned threads);

// Records of `bytes` bytes, and their keys, which stay those of the records when these move.
struct Selection {
  void* records;
  std::size_t bytes;
  std::size_t count;
  KeySource keys;
  const NumberForm* numbers;  // null: the records are none
  unsigned threads;
};
VORTEX_EXPORT void select(const Selection& selection, std::size_t k);
VORTEX_EXPORT void partial_sort(const Selection& selection, std::size_t k);

// An array of `bytes`.
struct WholeChunk {
  void* begin;
  std::size_t bytes;
};
// Calls sort(together) with the chunks copied to one array, which it copies back. A single one is
// sorted where it is.
VORTEX_EXPORT void sort_joined(std::span<const WholeChunk> chunks, unsigned threads,
                               const std::function<void(void* together)>& sort);

// Copies those of records [begin, end), which are in order, whose key the one in front of them does
// not have, and the first, to `to`, one behind the other; returns how many. `to` is beside the
// array, or its begin. Any thread may call it.
using CopyFirstOfEach = std::function<std::size_t(std::size_t begin, std::size_t end, void* to)>;
// Moves the first record of each key to the front; returns how many there are. For want of memory
// fewer threads do it; throws what `copy` does.
VORTEX_EXPORT std::size_t keep_first_of_each(void* records, std::size_t bytes, std::size_t count,
                                             const CopyFirstOfEach& copy, unsigned threads);

}  // namespace detail

}}  // namespace vortex::v0
