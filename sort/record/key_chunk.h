// Byte strings as sequences of words, so that most comparisons are those of two registers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sort/record/text_word.h"

namespace vortex { inline namespace v0 {

// A chunk of a string: seven of its bytes, big-endian, and in the lowest byte how many there are, 8
// if more follow. The order of two strings is that of their first chunks that differ, the shorter
// of "a" and "a\0" included, and strings are equal when two equal chunks are the last ones.
inline constexpr std::size_t kChunkBytes = 7;
inline constexpr std::uint64_t kMoreFollow = 8;

// Returns the chunk that begins `depth` bytes into the string; depth is at most its size. Reads no
// page that the string does not lie in.
inline std::uint64_t chunk_at(std::string_view string, std::size_t depth) noexcept {
  const char* const from = string.data() + depth;
  const std::size_t left = string.size() - depth;
  if (left > kChunkBytes) {
    return (__builtin_bswap64(load_word<std::uint64_t>(from)) & ~std::uint64_t{0xff}) | kMoreFollow;
  }
  if (left == 0) return 0;  // it may lie nowhere
  const std::uint64_t word = __builtin_bswap64(load_short(from, left));
  return (word & ~(~std::uint64_t{0} >> (8 * left))) | left;
}

inline bool ends_string(std::uint64_t chunk) noexcept { return (chunk & 0xff) != kMoreFollow; }

// How many chunks a string has: one at least.
inline std::uint64_t chunks_of(std::string_view string) noexcept {
  return string.empty() ? 1 : (string.size() + kChunkBytes - 1) / kChunkBytes;
}

// Returns the length of the common prefix, of which `known` bytes are known.
inline std::size_t common_prefix(std::string_view a, std::string_view b,
                                 std::size_t known) noexcept {
  const std::size_t end = std::min(a.size(), b.size());
  std::size_t at = known;
  for (; at + sizeof(std::uint64_t) <= end; at += sizeof(std::uint64_t)) {
    const std::uint64_t differing =
        load_word<std::uint64_t>(a.data() + at) ^ load_word<std::uint64_t>(b.data() + at);
    if (differing != 0) return at + static_cast<std::size_t>(std::countr_zero(differing)) / 8;
  }
  while (at < end && a[at] == b[at]) ++at;
  return at;
}

// Returns the number of the first chunk in which strings with a common prefix of `common` bytes
// differ; chunks_of(a) when they are equal.
inline std::uint64_t differing_chunk(std::string_view a, std::string_view b,
                                     std::size_t common) noexcept {
  const std::size_t shorter = std::min(a.size(), b.size());
  if (common < shorter) return common / kChunkBytes;
  if (a.size() == b.size()) return chunks_of(a);
  return shorter == 0 ? 0 : (shorter - 1) / kChunkBytes;
}

}}  // namespace vortex::v0
