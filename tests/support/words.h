// A sequence of words that tells which of them is at the wrong place.
#pragma once

#include <cstdint>

namespace vortex::test {

constexpr std::uint64_t word_at(std::uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; }

inline void write_words(volatile std::uint64_t* out, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) out[i] = word_at(i);
}

// The first word that is not as written, or `end`. Reads even where nobody looks at the result.
inline std::uint64_t first_wrong(const volatile std::uint64_t* in, std::uint64_t begin,
                                 std::uint64_t end) {
  while (begin < end && in[begin] == word_at(begin)) ++begin;
  return begin;
}

}  // namespace vortex::test
