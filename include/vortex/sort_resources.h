// The resources that a sort may use, memory and disks, and the plan by which it uses its memory:
// blocks, runs, merge order, passes, buffers. The caller may also follow and stop the sort.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/stream/export.h"
#include "vortex/detail/stream/in_place.h"
#include "vortex/disk.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/memory_budget.h"

namespace vortex { inline namespace v0 {

// How much memory this process may take: the machine's, the limit of its control group, and what
// its own limits leave.
struct MemoryLimits {
  std::uint64_t machine_bytes = 0;    // MemTotal
  std::uint64_t available_bytes = 0;  // MemAvailable
  // The lowest limit on the way from the process's control group to the root, if one is set, and
  // the file that sets it.
  std::optional<std::uint64_t> group_bytes;
  std::string group_file;
  // What RLIMIT_AS leaves of address space, and RLIMIT_DATA of private memory, where they are set.
  std::optional<std::uint64_t> address_space_bytes;
  std::optional<std::uint64_t> data_bytes;

  // The memory that percentages refer to.
  std::uint64_t usable_bytes() const noexcept {
    return group_bytes ? (*group_bytes < machine_bytes ? *group_bytes : machine_bytes)
                       : machine_bytes;
  }
};

// Reads /proc/meminfo and the control groups, version 2 and version 1. A limit that cannot be read
// counts as no limit. `root` stands before every path; it is empty except in tests.
VORTEX_EXPORT MemoryLimits memory_limits(const std::string& root = {});

// The memory that a sort takes if it is told no figure: half of the memory that is free in the
// machine and in the control group, a quarter of what the limits of the process leave, and no more
// than 1 GiB; blocks are populated and pinned ahead, which takes time.
VORTEX_EXPORT std::uint64_t default_memory_bytes(const MemoryLimits& limits = memory_limits());

// In which order a merge fetches its blocks.
enum class PrefetchKind {
  kOptimal,
  kForecastAndFlush,              // SRM, synchronous parallel reads
  kAsynchronousForecastAndFlush,  // SRM, each disk on its own
  kNaive,
  kStriped,  // DSM
};

inline constexpr PrefetchKind kAllPrefetchKinds[] = {
    PrefetchKind::kOptimal, PrefetchKind::kForecastAndFlush,
    PrefetchKind::kAsynchronousForecastAndFlush, PrefetchKind::kNaive, PrefetchKind::kStriped};

// "optimal", "srm", "srm-async", "naive", "striped".
VORTEX_EXPORT std::string_view prefetch_kind_name(PrefetchKind kind) noexcept;

// Throws Error (EINVAL) with the names there are.
VORTEX_EXPORT PrefetchKind parse_prefetch_kind(std::string_view name);

// The phase that a sort is in.
enum class SortPhase : std::uint8_t {
  kReading,  // reading the input, sorting parts of it
  kMerging,  // merging runs to longer ones
  kWriting,  // writing the output
};

// "reading", "merging", "writing".
VORTEX_EXPORT std::string_view to_string(SortPhase phase) noexcept;

struct SortProgress {
  SortPhase phase = SortPhase::kReading;
  std::uint64_t bytes = 0;                        // dealt with in this phase
  std::optional<std::uint64_t> phase_bytes = {};  // in all; none: not known, the input is a pipe
};

using SortProgressFunction = std::function<void(const SortProgress&)>;

// Whether runs are compressed, with LZ4, on their way to the disks; of records of one length the
// bytes are put into columns before, or into columns of differences between neighbours, where that
// saves more. A library that was built without LZ4 compresses nothing, and so does a sort that has
// no room for it: 81 KiB for each thread, and once more, and for records of one length 243 KiB; a
// sixteenth of the memory at most, or a quarter where it is demanded.
enum class RunCompression : std::uint8_t {
  kAuto,    // where the disks are slower than compressing, and there is something to save
  kAlways,  // all that becomes smaller by it
  kNever,
};

// How many runs and merges a sort took.
struct RunCounts {
  std::uint64_t runs = 0;   // that were formed
  unsigned merges = 0;      // the last one included
  unsigned passes = 0;      // merges of a record on its way, at most
  std::uint64_t bytes = 0;  // written to the disks in all, compressed
};

// How the work of disks and threads overlapped in a phase of a sort, in seconds.
struct SortOverlap {
  double seconds = 0;  // of the phase
  double disks = 0;    // of those in which a disk had something to do
  double threads = 0;  // in which a thread of the sort worked rather than waited
  double both = 0;     // in which both was so
  // Added up over all disks, over all threads.
  double sum_of_disks = 0;
  double sum_of_threads = 0;
};

// What came of a sort of files, whatever its records are.
struct SortReport {
  std::uint64_t records_in = 0;   // without headers
  std::uint64_t records_out = 0;  // without headers
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  // In the folders, long records that were kept apart being one; 0: everything fitted in memory.
  std::uint64_t runs = 0;
  unsigned merges = 0;                      // the last one included
  unsigned passes = 0;                      // merges of a record on its way, at most
  std::uint64_t run_bytes = 0;              // written to the folders in all
  std::vector<std::uint64_t> folder_bytes;  // and to each of them, records kept apart left out
  // The bytes that the disks moved: inputs, runs and output. What is read and written with plain
  // calls, as short inputs and records kept apart are, is no part of them.
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  // The bytes that the disks have to move at least, reading and writing added up: everything once
  // each way where it is sorted in memory, else twice. The lower bound of the time is this number
  // divided by the speed of the disks.
  std::uint64_t least_io_bytes = 0;
  // Processor time, user and system, of all threads of the process meanwhile.
  double cpu_seconds = 0;
  double run_formation_seconds = 0;
  double merge_seconds = 0;  // until the output was complete and synced
  double seconds = 0;
  std::array<SortOverlap, 3> overlap = {};  // of each SortPhase

  std::uint64_t io_bytes() const noexcept { return read_bytes + written_bytes; }
};

// Makes the disk of a folder in which runs are kept, or, for an empty name, the one that inputs are
// read and the output is written with. Disks of a kind or a depth of one's own come in here.
using SortDiskFunction = std::function<std::unique_ptr<Disk>(const std::string& folder)>;

// The most memory and the most threads that a sort can be given.
inline constexpr std::uint64_t kMaxSortMemoryBytes = std::uint64_t{1} << 46;
inline constexpr unsigned kMaxSortThreads = detail::ThreadTeam::kMaxThreads;

// The same for sorts of files and for sorters. Numbers beyond their limits are refused where the
// sort begins: Error(EINVAL) that names the option.
struct SortResources {
  // At most kMaxSortMemoryBytes, for everything that is resident: blocks, scratch, tables, streams,
  // buffers, and of the program 16 MiB, or a thirty-second part of this where that is less. 0:
  // default_memory_bytes().
  std::uint64_t memory_bytes = 0;
  // Memory that this sort shares with others of the process: the sort gets what is free of it, at
  // most `memory_bytes` and at least `least_memory_bytes` (0: a quarter of the most), and waits for
  // that where it begins. none: the memory is the sort's own.
  std::shared_ptr<MemoryBudget> budget = {};
  std::uint64_t least_memory_bytes = 0;
  // Where runs are kept, a disk each. Empty: the folder of the output where that is a file, else
  // $TMPDIR or /tmp.
  std::vector<std::string> folders = {};
  // How fast the disk of each folder is, in bytes a second or any other unit: a folder gets that
  // share of the runs, but no more than it has room for. Empty: all are equally fast.
  std::vector<double> folder_speeds = {};
  std::size_t block_bytes = 0;  // a power of two, 16 KiB to 64 MiB; 0: what suits the memory
  // What each request costs a disk beside its bytes, see measure_request_cost(): expensive ones
  // make blocks large. none: measured, once for each file system and process, when files of 4 GiB
  // or more are sorted that do not fit in memory; otherwise it counts for nothing.
  std::optional<std::uint64_t> request_cost_bytes = {};
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  DiskBackend backend = DiskBackend::kBest;
  Caching caching = Caching::kAuto;  // of inputs, runs and output; runs go around the page cache
                                     // unless this is kBuffered
  InPlace output_in_place = InPlace::kNever;  // what becomes of a file that the output replaces
  // The output of a sort of files, and its name, have reached the disk when the sort returns. A
  // whole output appears at once all the same without that, but a crash of the system soon behind
  // may leave an empty or a partial file under its name.
  bool sync = true;
  SortDiskFunction open_disk = {};  // instead of disks of the backend
  RunCompression compression = RunCompression::kAuto;
  std::uint64_t seed = 1;  // which run lies on which disk
  // Beside those of the disks, the caller's included. With two or more a run is sorted and written
  // while the next one comes in, and up to `threads` threads ask the order of the records,
  // comparators included, at the same time. At most kMaxSortThreads; 0: one for each processor that
  // the process may use.
  unsigned threads = 0;
  std::stop_token stop = {};  // the sort ends with Error(ECANCELED) soon after a request
  // Called about once a megabyte by the thread that sorts: the one that pushes or has called the
  // sort, and for the array of a sorter the thread that merges. May throw, which ends the sort.
  SortProgressFunction progress = {};
};

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
  unsigned most_buckets = 64;
  unsigned threads = 1;  // the sort's own; with two or more a run is written while the next comes
  // The scratch that a thread takes for each record of a bucket that it sorts beside others.
  std::size_t scratch_per_record = 32;
  // Records are pushed one by one: push_buffer_bytes() of the memory gather them first.
  bool pushed = false;
  RunCompression compression = RunCompression::kNever;  // that is wanted
};

// The longest input that can be planned for.
inline constexpr std::uint64_t kMaxSortInputBytes = std::uint64_t{1} << 62;

// The size of the buffer in which records that are pushed one by one gather: 64 KiB, or a sixteenth
// of the memory where that is less, in whole records, one at least.
VORTEX_EXPORT std::size_t push_buffer_bytes(std::uint64_t memory_bytes,
                                            std::size_t record_bytes) noexcept;

// How run formation divides its memory.
struct RunFormationOptions {
  static constexpr unsigned kMaxBuckets = 4096;

  // Into how many buckets a run is split, at most kMaxBuckets; fewer in a small pool, so that
  // what they leave partly filled stays a quarter of it or less.
  unsigned buckets = 64;
  // For sorting a bucket, see sort_records(). 32 bytes for each record of a bucket are the fastest.
  std::size_t scratch_bytes = std::size_t{4} << 20;
  // 2: a run may be emitted while the next one is pushed.
  unsigned generations = 1;
  // That sort buckets, as far as the scratch holds several; while another thread pushes, one fewer.
  unsigned threads = 1;
  // That put records to buckets, the one that pushes included.
  unsigned partition_threads = 1;
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
  std::uint64_t run_bytes = 0;  // the least that fills the memory
  // A run is written from so many bytes on while no other one is, so that an input that is a little
  // longer than the memory is read and written at once; 0: when the memory is full.
  std::uint64_t run_begin_bytes = 0;

  // Merging. Without a known length, `runs` and `passes` are 0 and merge_order is the largest.
  std::uint64_t runs = 0;  // at most
  std::uint64_t merge_order = 0;
  unsigned passes = 0;
  std::uint64_t forecast_memory_bytes = 0;
  std::uint64_t stream_memory_bytes = 0;                // of the streams of the largest merge
  RunCompression compression = RunCompression::kNever;  // of runs, where there is memory for it
  std::uint64_t packing_memory_bytes = 0;

  // Inputs that are sorted already and only merged, with `reader` and `writer`; then `runs` is what
  // merging them for the first time leaves, and `passes` counts that, too. 0: they are sorted.
  std::uint64_t merged_inputs = 0;

  // The input is read, sorted in memory and written once.
  bool in_memory() const noexcept { return merged_inputs == 0 && request.bytes && runs <= 1; }

  // The least length of a run, but the last.
  std::uint64_t least_run_bytes() const noexcept {
    return run_begin_bytes != 0 ? run_begin_bytes : run_bytes;
  }

  // All that the sort takes, besides what the program does without it.
  std::uint64_t memory_taken_bytes() const noexcept;

  // How a merge of `runs` (2 to largest_merge_order()) divides the pool (SPAA, section 5).
  MergeBuffers merge_buffers(std::uint64_t runs) const;
  std::uint64_t largest_merge_order() const;

  // So many bytes more than the plan was made for, when `runs` have been formed and the pool is to
  // be made anew for merging them. Returns whether kernel maps and address space suffice, and the
  // memory stays within kMaxSortMemoryBytes; if not, nothing has changed.
  bool add_memory_for_merging(std::uint64_t bytes, std::uint64_t runs);

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
// which the whole is fastest. Beyond 2 MiB they only grow where the maps do not suffice for less,
// or where requests cost a disk as much as 256 KiB or more. Throws Error: ENOMEM when the memory is
// too small, with the least that would do, which does, or when maps or address space are; EINVAL
// for a block size that no pool can have or that no record fits into, and for numbers beyond their
// limits.
VORTEX_EXPORT SortPlan plan_sort(const SortPlanRequest& request);

// Several lines for people.
VORTEX_EXPORT std::string to_string(const SortPlan& plan);

// How much more address space this process may reserve: what RLIMIT_AS leaves, at most half of what
// the processor has.
VORTEX_EXPORT std::uint64_t address_space_left();

// The same of private memory, which RLIMIT_DATA limits: all that can be written to and is not
// shared; none: there is no limit.
VORTEX_EXPORT std::optional<std::uint64_t> private_memory_left();

// What the stack of a thread takes of both, in bytes; 0: neither is limited.
VORTEX_EXPORT std::uint64_t stack_bytes_of_thread();

// Advice for messages where the address space is too little.
VORTEX_EXPORT std::string address_space_advice();

// The same resources, with the default memory where they name none. Throws Error(EINVAL) for
// numbers beyond their limits.
VORTEX_EXPORT SortResources with_memory(SortResources resources);

// The sort's share of its budget, and that much as its memory. Without a budget nothing changes,
// and the share is empty. The resources have a memory. Throws Error as MemoryBudget::take() does.
VORTEX_EXPORT MemoryShare take_memory_share(SortResources& resources);

// Fills in what this process can have: the default memory where the request names none, less where
// RLIMIT_DATA leaves less, kernel maps, address space, and the stacks of the threads that so many
// disks of the backend start.
VORTEX_EXPORT void limit_to_process(SortPlanRequest& request, DiskBackend backend, unsigned disks);

}}  // namespace vortex::v0
