// The parts of a sort's memory that are the same for all records, and the least that will do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sort/merge/prefetch_policy.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/file_writer.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// The part of the memory that is taken for the program, its libraries, the queues of the disks,
// and the streams of inputs and output.
inline std::uint64_t program_bytes(std::uint64_t memory_bytes) noexcept {
  constexpr std::uint64_t kMost = std::uint64_t{16} << 20;
  constexpr std::uint64_t kShare = 32;
  return std::min(memory_bytes / kShare, kMost);
}

// A pipe is taken to be this many runs, or times the memory.
inline constexpr std::uint64_t kAssumedRuns = 32;

// What a request costs the disk is no more than that where places do not matter; an arm's way takes
// the time for megabytes, and there blocks may be larger than is good for the caches.
inline constexpr std::uint64_t kExpensiveRequest = std::uint64_t{256} << 10;

// How a merge reads its runs, and how many blocks of each it holds.
struct MergeReading {
  PrefetchKind kind;
  unsigned disks;
  std::size_t window_blocks;

  PrefetchOptions options(std::uint64_t runs) const;
  // The least buffers for `runs`, `ahead` beside what the merge holds included.
  std::size_t least_buffers(std::uint64_t runs, std::size_t ahead = 0) const;
  // The most runs for which `buffers` suffice.
  std::uint64_t most_runs(std::size_t buffers, std::size_t ahead) const;
};

// Blocks of the output that are on their way at once, where it is a run.
inline std::size_t blocks_behind(const FileWriterOptions& writer, std::size_t block_bytes) {
  return writer.write_behind * std::max<std::size_t>(writer.request_bytes / block_bytes, 1);
}

// A number that format_bytes() writes out without rounding it: `bytes`, or a little more.
inline std::uint64_t exactly_named(std::uint64_t bytes) noexcept {
  std::uint64_t step = std::uint64_t{64} << 10;
  for (std::uint64_t unit = std::uint64_t{1} << 20; bytes >= 8 * unit; unit <<= 10) step = unit;
  return detail::round_up(bytes, step);
}

// A number of bytes that `suffices(bytes)`, little more than the least and above `too_little`,
// which does not; 0: none does.
template <typename Suffices>
std::uint64_t least_memory(std::uint64_t too_little, const Suffices& suffices) {
  std::uint64_t low = too_little;
  std::uint64_t high = std::max<std::uint64_t>(too_little, 1) * 2;
  while (!suffices(high)) {
    if (high >= kMaxSortMemoryBytes) return 0;
    low = high;
    high *= 2;
  }
  // Plans are made in steps of blocks, so a hundredth is close enough.
  while (high - low > high / 128 + 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (suffices(middle) ? high : low) = middle;
  }
  // Whoever takes the number from a message must have enough, and more is not always better.
  constexpr int kTries = 64;
  std::uint64_t named = exactly_named(high);
  for (int i = 0; i < kTries; ++i, named = exactly_named(named + 1)) {
    if (named <= kMaxSortMemoryBytes && suffices(named)) return named;
  }
  return high;
}

}}  // namespace vortex::v0
