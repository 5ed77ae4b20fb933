// Streams between two threads whose blocks are small and whose windows are few of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vortex::test {

inline constexpr std::uint64_t kB = std::uint64_t{16} << 10;
inline constexpr std::uint64_t kWords = kB / sizeof(std::uint64_t);

// N, L and M of the paper, for a pipeline or a stream that commits.
template <typename Options>
Options small_windows(std::size_t n, std::size_t l, std::size_t m) {
  Options options;
  options.block_bytes = kB;
  options.read_ahead_blocks = n;
  options.writer_comeback_blocks = l;
  options.reader_comeback_blocks = m;
  options.reserve_bytes = std::uint64_t{1} << 34;
  return options;
}

}  // namespace vortex::test
