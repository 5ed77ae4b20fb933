// The plan by which an external sort uses its memory: blocks, runs, merge order, passes, buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "vortex/detail/export.h"
#include "vortex/file_access.h"
#include "vortex/sort_resources.h"

namespace vortex::inline v0 {

struct SortPlanRequest {
  std::optional<std::uint64_t> bytes;  // of the input; none: not known beforehand (a pipe)
  std::size_t record_bytes = 0;
  // Beside eight bytes of it, what is kept of each block's last key, to forecast with.
  std::size_t forecast_bytes = 0;
  // For everything: blocks and what is kept of each, scratch, tables, streams, and the program, of
  // which a thirty-second part of the memory is taken to be, 16 MiB at most.
  std::uint64_t memory_bytes = 0;
  unsigned disks = 1;           // for runs
  std::size_t block_bytes = 0;  // 0: what suits the memory
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  // The address space that streams may reserve. Buckets take most of it, each as much as the
  // memory: where address space is short, there are fewer buckets.
  std::uint64_t address_space_bytes = ~std::uint64_t{0};
  std::uint64_t stack_bytes = 0;  // of it, for the stacks of threads that will be started
  // Kernel maps for the blocks, see BlockPool::maps_needed(). Where they are few, blocks are large.
  std::size_t most_maps = ~std::size_t{0};
  unsigned most_buckets = 64;
};

// How run formation divides its memory.
struct RunFormationOptions {
  static constexpr unsigned kMaxBuckets = 4096;

  // Into how many buckets a run is split, at most kMaxBuckets; fewer in a small pool, so that
  // what they leave partly filled stays a quarter of it or less.
  unsigned buckets = 64;
  // For sorting a bucket, see sort_records(). 32 bytes for each record of a bucket are the fastest.
  std::size_t scratch_bytes = std::size_t{4} << 20;
};

// How a merge divides the pool.
struct MergeBuffers {
  std::size_t read_buffers = 0;      // see PrefetchOptions::buffers
  FileWriterOptions writer;          // of the output
  std::size_t run_write_behind = 0;  // blocks, where the output is another run
};

// All memory is one pool of blocks of one size, which run formation and merging divide in turn,
// besides the scratch for sorting a bucket, the forecasts, and the tables of each block and stream.
//
// The code that carries the plan out makes readers, writers and run formation with these options as
// they are, and adds only the file, the disk and the pool: then no part takes other blocks than
// those that were counted.
struct VORTEX_EXPORT SortPlan {
  SortPlanRequest request;
  std::size_t block_bytes = 0;
  std::size_t pool_blocks = 0;
  // Blocks that a stream of records holds: 1 where blocks hold whole records, else 2.
  std::size_t window_blocks = 0;

  // Run formation. Records that are sorted in memory go to `writer`.
  FileReaderOptions reader;          // of an input
  FileWriterOptions writer;          // of the output
  std::size_t run_write_behind = 0;  // blocks of a run on their way to the disks
  std::size_t bucket_blocks = 0;     // the rest of the pool
  RunFormationOptions formation;
  std::uint64_t run_bytes = 0;  // the least length of a run, but the last

  // Merging. Without a known length, `runs` and `passes` are 0 and merge_order is the largest.
  std::uint64_t runs = 0;  // at most
  std::uint64_t merge_order = 0;
  unsigned passes = 0;
  std::uint64_t forecast_memory_bytes = 0;
  std::uint64_t stream_memory_bytes = 0;  // of the streams of the largest merge

  // Inputs that are sorted already and only merged, with `reader` and `writer`; then `runs` is what
  // merging them for the first time leaves, and `passes` counts that, too. 0: they are sorted.
  std::uint64_t merged_inputs = 0;

  // The input is read, sorted in memory and written once.
  bool in_memory() const noexcept { return merged_inputs == 0 && request.bytes && runs <= 1; }

  // All that the sort takes, besides what the program does without it.
  std::uint64_t memory_taken_bytes() const noexcept;

  // How a merge of `runs` (2 to largest_merge_order()) divides the pool (SPAA, section 5).
  MergeBuffers merge_buffers(std::uint64_t runs) const;
  std::uint64_t largest_merge_order() const;

  // The address space that the sort takes at most, in any phase: the pool, the streams with what
  // lies behind each, the heap and the stacks. Each bucket reserves as much as all buckets together
  // hold; files and runs reserve their lengths.
  std::uint64_t address_space_bytes() const;

  // The part of it that an input of unknown length must leave free: for a run that is written while
  // the input is read, and for what may still be started and allocated.
  std::uint64_t space_beside_input_bytes() const noexcept;

  // Runs that can be merged when each is read on its own: files that were sorted elsewhere, of
  // which no forecasts exist.
  std::uint64_t plain_merge_order() const;
  // The options for one of these files, and for the output of their merge.
  FileReaderOptions plain_reader() const;
  FileWriterOptions plain_writer() const;
};

// Larger blocks take less time for their bytes, and more passes: the block size is the one with
// which the whole is fastest. Beyond 2 MiB they only grow where the maps do not suffice for less.
// Throws Error: ENOMEM when the memory is too small, with the least that would do, or when maps or
// address space are; EINVAL for a block size that no pool can have or that no record fits into.
VORTEX_EXPORT SortPlan plan_sort(const SortPlanRequest& request);

// Several lines for people.
VORTEX_EXPORT std::string to_string(const SortPlan& plan);

// How much more address space this process may reserve: what RLIMIT_AS leaves, at most half of what
// the processor has.
VORTEX_EXPORT std::uint64_t address_space_left();

// Advice for messages where the address space is too little.
VORTEX_EXPORT std::string address_space_advice();

// Fills in what this process can have: the default memory where the request names none, kernel
// maps, address space, and the stacks of the threads that so many disks of the backend start.
VORTEX_EXPORT void limit_to_process(SortPlanRequest& request, DiskBackend backend, unsigned disks);

}  // namespace vortex::inline v0
