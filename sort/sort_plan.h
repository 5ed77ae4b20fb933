// What an external sort does with its memory: blocks, runs, merge order, passes, buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sort/prefetch_kind.h"

namespace vortex {

struct SortPlanRequest {
  std::optional<std::uint64_t> bytes;  // of the input; none: not known beforehand (a pipe)
  std::size_t record_bytes = 0;
  // Beside eight bytes of it, what is kept of each block's last key, to forecast with.
  std::size_t forecast_bytes = 0;
  std::uint64_t memory_bytes = 0;  // for everything that grows with the input
  unsigned disks = 1;              // for runs
  std::size_t block_bytes = 0;     // 0: what suits the memory
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  // What streams may reserve. Buckets take most of it, each as much as the memory: where it is
  // little, there are fewer of them.
  std::uint64_t address_space_bytes = ~std::uint64_t{0};
  unsigned most_buckets = 64;
};

// Blocks for one merge.
struct MergeBuffers {
  std::size_t read_buffers = 0;   // see PrefetchOptions::buffers
  std::size_t write_behind = 0;   // requests of the output under way
  std::size_t request_bytes = 0;  // of the output
};

// All memory is one pool of blocks of one size, which run formation and merging divide in turn,
// besides the scratch for sorting a bucket and the forecasts.
struct SortPlan {
  SortPlanRequest request;
  std::size_t block_bytes = 0;
  std::size_t pool_blocks = 0;
  // Blocks that a stream of records holds: 1 where blocks hold whole records, else 2.
  std::size_t window_blocks = 0;

  // Run formation.
  std::size_t request_bytes = 0;  // of input and output
  std::size_t read_ahead = 0;     // requests
  std::size_t write_behind = 0;
  std::size_t bucket_blocks = 0;  // the rest of the pool
  unsigned buckets = 0;
  std::size_t scratch_bytes = 0;
  std::uint64_t run_bytes = 0;  // the least length of a run, but the last

  // Merging. Without a known length, `runs` and `passes` are 0 and merge_order is the largest.
  std::uint64_t runs = 0;  // at most
  std::uint64_t merge_order = 0;
  unsigned passes = 0;
  std::uint64_t forecast_memory_bytes = 0;

  // Inputs that are sorted already and only merged; then `runs` is what merging them for the first
  // time leaves, and `passes` counts that, too. 0: they are sorted.
  std::uint64_t merged_inputs = 0;

  // The input is read, sorted in memory and written once.
  bool in_memory() const noexcept { return merged_inputs == 0 && request.bytes && runs <= 1; }

  // Blocks of the pool that the reader of an input takes, and a writer of the output.
  std::size_t reader_blocks() const;
  std::size_t writer_blocks(std::size_t requests, std::size_t bytes_of_request) const;

  // How a merge of `runs` (2 to largest_merge_order()) divides the pool (SPAA, section 5).
  MergeBuffers merge_buffers(std::uint64_t runs) const;
  std::uint64_t largest_merge_order() const;

  // What the streams reserve in all: each bucket as much as all of them have, and the files and
  // runs their lengths.
  std::uint64_t address_space_bytes() const noexcept;

  // Runs that can be merged when each is read on its own, two requests ahead: files that were
  // sorted elsewhere, of which no forecasts exist.
  std::uint64_t plain_merge_order() const noexcept;
  static constexpr std::size_t kPlainReadAhead = 2;
};

// Larger blocks take less time for their bytes, and more passes: the block size is the one with
// which the whole is fastest.
// Throws Error: ENOMEM when the memory is too small, with the least that would do; EINVAL for a
// block size that no pool can have or that no record fits into.
SortPlan plan_sort(const SortPlanRequest& request);

// Several lines for people.
std::string to_string(const SortPlan& plan);

}  // namespace vortex
