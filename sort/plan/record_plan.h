// How a sort of records of one length divides its memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sort/plan/least_memory.h"
#include "sort/runs/run_formation.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// The longest input that can be planned for.
inline constexpr std::uint64_t kMaxSortInputBytes = std::uint64_t{1} << 62;

// Limits of the numbers: memory, threads and blocks as in SortResources, kMaxSortInputBytes for the
// input and the stacks, kMaxBlockBytes for records, forecasts and scratch,
// RunFormationOptions::kMaxBuckets buckets, and 2^16 disks.
struct SortPlanRequest {
  std::optional<std::uint64_t> bytes;  // of the input; none: not known beforehand (a pipe)
  std::size_t record_bytes = 0;
  // Beside eight bytes of it, what is kept of each block's last key, to forecast with.
  std::size_t forecast_bytes = 0;
  // For everything: blocks and what is kept of each, scratch, tables, streams, and the program, of
  // which a thirty-second part of the memory is taken to be, 16 MiB at most.
  std::uint64_t memory_bytes = 0;
  unsigned disks = 1;                    // for runs
  std::size_t block_bytes = 0;           // 0: what suits the memory
  std::uint64_t request_cost_bytes = 0;  // of the slowest disk for runs, see SortResources
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  // The address space that streams may reserve. Buckets take most of it, each as much as the
  // memory: where address space is short, there are fewer buckets.
  std::uint64_t address_space_bytes = ~std::uint64_t{0};
  std::uint64_t stack_bytes = 0;   // of it, for the stacks of threads that will be started
  std::uint64_t thread_bytes = 0;  // the same for each of the sort's own threads
  // Kernel maps for the blocks, see BlockPool::maps_needed(). Where they are few, blocks are large.
  std::size_t most_maps = ~std::size_t{0};
  unsigned most_buckets = 128;  // half as many where all that comes is known to fit
  unsigned threads = 1;  // the sort's own; with two or more a run is written while the next comes
  // The scratch that a thread takes for each record of a bucket that it sorts beside others.
  std::size_t scratch_per_record = 32;
  // What it takes at most instead, where buckets can be sorted within themselves; else 0.
  std::size_t bytes_of_sorter = 0;
  // Records are pushed one by one: push_buffer_bytes() of the memory gather them first.
  bool pushed = false;
  bool in_parts = false;            // the last merge may write its output in several places at once
  bool runs_in_parts = false;       // so may merges of runs to runs
  std::uint64_t first_records = 0;  // see SortResources
  RunCompression compression = RunCompression::kNever;  // that is wanted
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
struct RecordPlan : SortPlan {
  RecordPlan() = default;
  RecordPlan(const SortPlanRequest& request, std::size_t block_bytes);

  SortPlanRequest request;
  // Blocks that a stream of records holds: 1 where blocks hold whole records, else 2.
  std::size_t window_blocks = 0;

  // Run formation. Records that are sorted in memory go to `writer`.
  FileReaderOptions reader;  // of an input
  FileWriterOptions writer;  // of the output
  RunFormationOptions formation;
  // A run is written from this many bytes on while no other one is, so that an input that is a
  // little longer than the memory is read and written at once; 0: when the memory is full.
  std::uint64_t run_begin_bytes = 0;

  // When runs have been formed: blocks of the pool in which the last one stays, so that merges do
  // without them.
  std::optional<std::size_t> held_blocks;

  std::uint64_t stream_memory_bytes = 0;  // of the streams of the largest merge
  std::uint64_t packing_memory_bytes = 0;

  // All that the sort takes, besides what the program does without it.
  std::uint64_t memory_taken_bytes() const noexcept;

  std::uint64_t memory_for_buckets() const noexcept {
    return std::uint64_t{bucket_blocks} * block_bytes;
  }

  // Where several threads copy what is sorted: how many of `behind` blocks, which would be written
  // behind it, are kept for rooms that they copy to (room_in_blocks()).
  std::size_t blocks_for_rooms(std::size_t behind) const noexcept;
  // `writer` with these, for what is sorted in memory.
  FileWriterOptions wide_writer() const;
  std::size_t wide_of(const FileWriterOptions& of_writer) const noexcept {
    return of_writer.comeback_blocks + 1 - window_blocks;
  }

  MergeReading reading() const noexcept { return {prefetch, disks, window_blocks}; }
  // How a merge of `runs` (2 to largest_merge_order()) divides the pool (SPAA, section 5), or each
  // of `merges` that go on side by side its share.
  MergeBuffers merge_buffers(std::uint64_t runs, unsigned merges = 1) const;
  // How many merges of parts of so many runs can go on side by side, each with a writer, and wait
  // for their runs no more than one would; until runs have been formed, as is expected. A part that
  // is shorter than least_part_records() is not worth a thread.
  unsigned merges_at_once(std::uint64_t runs) const;
  std::uint64_t least_part_records() const noexcept { return 8 * block_bytes / record_bytes; }
  std::uint64_t largest_merge_order() const;
  // The same of merges to runs, which go on until `most` are left: how many runs become one at a
  // time at most. As few as let more threads have a part of each, but take no more passes, and no
  // more than a quarter more to merge.
  unsigned run_parts(std::uint64_t runs) const;
  std::uint64_t pass_order(std::uint64_t runs, std::uint64_t most) const;
  // That the last merge is expected to have.
  std::uint64_t expected_order() const noexcept {
    return input_bytes ? std::min(expected_runs, merge_order) : merge_order;
  }
  std::size_t merging_blocks() const noexcept { return pool_blocks - held_blocks.value_or(0); }
  // Of these the last merge of `runs` takes so many at least if its disks, and as far as that pays
  // its threads, are not to wait: beside more nothing is held.
  std::size_t blocks_to_merge(std::uint64_t runs) const;
  // That the last run may keep beside the merge of the others, if there are as many as are
  // expected.
  std::uint64_t bytes_to_keep() const;

  // Adds `bytes` to what the plan was made for, when `runs` have been formed and the pool is to
  // be made anew for merging them. Returns whether kernel maps and address space suffice, and the
  // memory stays within kMaxSortMemoryBytes; if not, nothing has changed.
  bool add_memory_for_merging(std::uint64_t bytes, std::uint64_t runs);

  // The address space that the sort takes at most, in any phase: the pool, the streams with what
  // lies behind each, the heap and the stacks. Each bucket reserves as much as all buckets together
  // hold; files and runs reserve their lengths.
  std::uint64_t address_space_bytes() const;

  // What is planned of it for an input of unknown length.
  static constexpr std::uint64_t kLeastOfPipe = std::uint64_t{1} << 30;
  // The part of it that such an input must leave free: for a run that is written while
  // the input is read, and for what may still be started and allocated.
  std::uint64_t space_beside_input_bytes() const noexcept;

  // Runs that can be merged when each is read on its own: files that were sorted elsewhere, of
  // which no forecasts exist.
  std::uint64_t plain_merge_order() const;
  // The options for one of these files, and for the output of their merge.
  FileReaderOptions plain_reader() const;
  FileWriterOptions plain_writer() const;

  // Where few first records are wanted, which take a part of the memory that run formation would,
  // there are no runs.
  void keep_few_in_memory() noexcept;
  // How many of the blocks for buckets stay unused for these, which lie beside the pool.
  std::size_t blocks_for_few() const noexcept;

  // What it takes to move a byte once, with the share of its block in what moving a block costs.
  double cost_of_byte() const noexcept;

  // With what users are told besides.
  SortPlan told() const;

  // That one of several merges of `runs` takes at least.
  std::size_t blocks_of_part(std::uint64_t runs) const;

 private:
  std::uint64_t runs_of_parts(unsigned merges) const;
  void tell_of_passes(SortPlan& plan) const;
};

// Larger blocks take less time for their bytes, and more passes: the block size is the one with
// which the whole is fastest. Beyond 2 MiB they only grow where the maps do not suffice for less,
// or where requests cost a disk as much as 256 KiB or more. Throws Error: ENOMEM when the memory is
// too small, with the least that would do, which does, or when maps or address space are; EINVAL
// for a block size that no pool can have or that no record fits into, and for numbers beyond their
// limits.
RecordPlan plan_sort(const SortPlanRequest& request);

// As plan_sort(), but an input much smaller than the memory gets no more of it than four times its
// length, or 16 MiB.
RecordPlan plan_thriftily(const SortPlanRequest& request);

// As plan_thriftily(), for `inputs` inputs that are merged because they are sorted already: two at
// a time at least, each read on its own. Throws Error(ENOMEM) with the least that would do.
RecordPlan plan_input_merge(const SortPlanRequest& request, std::uint64_t inputs);

}}  // namespace vortex::v0
