// The resources that a sort may use, memory and disks; the plan by which it uses its memory; and
// its report. The caller may also follow and stop the sort.
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
#include "vortex/disk.h"
#include "vortex/memory_budget.h"
#include "vortex/version.h"

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

// What a sort does with its memory, which is one pool of blocks of one size beside tables and what
// forms runs. What a kind of record does not have is 0.
struct VORTEX_EXPORT SortPlan {
  std::optional<std::uint64_t> input_bytes;  // none: not known beforehand (a pipe)
  std::size_t record_bytes = 0;              // 0: records of any length
  std::uint64_t memory_bytes = 0;            // for everything
  std::uint64_t first_records = 0;           // that are wanted, see SortResources; 0: all
  bool first_in_memory = false;              // they are kept while the others pass, without runs;
                                             // not known of records of any length
  unsigned threads = 1;
  unsigned disks = 1;                    // for runs
  std::uint64_t request_cost_bytes = 0;  // of the slowest of them, see SortResources
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  RunCompression compression = RunCompression::kNever;  // of runs, where there is memory for it
  std::size_t block_bytes = 0;
  std::size_t pool_blocks = 0;  // that are in use at the same time, at most

  // Run formation: of records of one length, into buckets; of others, in an arena.
  unsigned buckets = 0;
  unsigned partition_threads = 0;           // that put records to buckets, while none sorts
  std::size_t bucket_blocks = 0;            // of the pool
  std::size_t scratch_bytes = 0;            // for sorting buckets
  std::uint64_t forecast_memory_bytes = 0;  // the tables of the blocks on disk
  std::uint64_t run_bytes = 0;              // of the shortest run that fills the memory
  std::uint64_t least_run_bytes = 0;  // of a run, but the last: less where the disk has nothing to
                                      // do before the memory is full
  std::size_t arena_bytes = 0;        // for records, keys and index; more than one thread fill half
                                      // of it while the other is written
  std::uint64_t longest_record = 0;   // that there is room for, key included
  std::size_t run_write_behind = 0;   // blocks of a run on their way to the disks

  // Merging. How many runs there are is known for records of one length and inputs of known
  // length only; else these and the passes are 0, and merge_order is the largest, of records that
  // are shorter than a block.
  std::uint64_t runs = 0;           // at most
  std::uint64_t expected_runs = 0;  // of records in no order; those in order make fewer
  std::uint64_t merge_order = 0;
  unsigned passes = 0;           // at most
  unsigned expected_passes = 0;  // as many runs take
  // Where several are expected, merges of runs to runs: how many become one at a time at most, and
  // how many threads do that side by side, each a part.
  std::uint64_t pass_order = 0;
  unsigned pass_parts = 0;
  // The bytes of the last run that stay in memory and are merged from there, if as many runs are
  // formed as are expected and nobody else may want the memory. In a report: that have stayed.
  std::uint64_t kept_bytes = 0;
  // How many threads merge for the last time side by side, each a part, where the output is a file
  // and no equal records are dropped; not known of records of any length. How each divides its
  // share of the pool, of a merge of runs: blocks to read, and requests of the output under way.
  unsigned merge_parts = 0;
  std::size_t read_buffers = 0;
  std::size_t write_requests = 0;
  std::size_t write_request_bytes = 0;

  // Inputs that are sorted already and only merged, and how many of them are read in blocks at a
  // time; then `runs` is what merging them for the first time leaves, and `passes` counts that,
  // too. 0: they are sorted.
  std::uint64_t merged_inputs = 0;
  std::uint64_t inputs_in_blocks = 0;

  // The input is read once, what is wanted of it is sorted in memory, and written; not known of
  // records of any length.
  bool in_memory() const noexcept {
    return record_bytes != 0 && merged_inputs == 0 &&
           (first_in_memory || (input_bytes && runs <= 1));
  }
};

// Several lines for people.
VORTEX_EXPORT std::string to_string(const SortPlan& plan);

// What came of a sort of files, whatever its records are.
struct SortReport {
  std::uint64_t records_in = 0;   // that were read, without headers
  std::uint64_t records_out = 0;  // without headers
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  // In the folders, long records that were kept apart being one; 0: everything fitted in memory.
  // The only run of records of one length is the output, and no merge follows, if the output's
  // folder is the one for runs.
  std::uint64_t runs = 0;
  unsigned merges = 0;          // the last one included
  unsigned passes = 0;          // merges of a record on its way, at most
  std::uint64_t run_bytes = 0;  // of records, written to the folders in all, beside the output
  // Written to each folder, in whole sectors and, of runs that fall, whole blocks. Records kept
  // apart are left out.
  std::vector<std::uint64_t> folder_bytes;
  // The bytes that the disks moved: inputs, runs and output. What is read and written with plain
  // calls, as short inputs and records kept apart are, is no part of them.
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  // The bytes that the disks have to move at least, reading and writing added up: everything once
  // each way where it is sorted in memory or a run is the output, else twice. The lower bound of
  // the time is this number divided by the speed of the disks.
  std::uint64_t least_io_bytes = 0;
  // Processor time, user and system, of all threads of the process meanwhile.
  double cpu_seconds = 0;
  double run_formation_seconds = 0;
  double merge_seconds = 0;  // until the output was complete and synced
  double seconds = 0;
  std::array<SortOverlap, 3> overlap = {};  // of each SortPhase

  // As the sort ended: merging may have got more memory than forming runs, or less. Empty where the
  // input was so small that it was read, sorted and written by plain calls.
  SortPlan plan;

  // The parts of the last merge, or of lines that were sorted in memory, which threads wrote side
  // by side.
  unsigned merge_parts = 0;
  // For records of any length.
  // With RecordFraming::quoted(), headers included: records whose quotes are invalid, and those of
  // them whose last quote is never closed, which are the rest of their input.
  std::uint64_t invalid_records = 0;
  std::uint64_t unclosed_records = 0;

  std::uint64_t io_bytes() const noexcept { return read_bytes + written_bytes; }
};

// Makes the disk of a folder in which runs are kept, or, for an empty name, the one that inputs are
// read and the output is written with. Disks of a kind or a depth of one's own come in here. Where
// it returns null the sort throws Error(EINVAL).
using SortDiskFunction = std::function<std::unique_ptr<Disk>(const std::string& folder)>;

// The most memory and the most threads that a sort can be given.
inline constexpr std::uint64_t kMaxSortMemoryBytes = std::uint64_t{1} << 46;
inline constexpr unsigned kMaxSortThreads = detail::ThreadTeam::kMaxThreads;

// The same for sorts of files and for sorters. Numbers beyond their limits are refused where the
// sort begins: Error(EINVAL) that names the option.
struct SortResources {
  // How many records come out, as if the others stood behind them in the order and were left out;
  // 0: all. Few are kept in memory while the others pass, and nothing but long lines is written to
  // the folders; of more each run has no others, and merges end with them. Sorted inputs are read
  // no further than they are needed.
  std::uint64_t first_records = 0;
  // At most kMaxSortMemoryBytes, for everything that is resident: blocks, scratch, tables, streams,
  // buffers, and of the program 16 MiB, or a thirty-second part of this where that is less. 0:
  // default_memory_bytes().
  std::uint64_t memory_bytes = 0;
  // Memory that this sort shares with others of the process: the sort gets what is free of it, at
  // most `memory_bytes`, or `least_memory_bytes` if these are more, and at least the latter (0: a
  // quarter of the most), and waits for that where it begins. none: the memory is the sort's own.
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
  // comparators included, at the same time. At most kMaxSortThreads, and no more start than the
  // process may use processors; 0: that many.
  unsigned threads = 0;
  std::stop_token stop = {};  // the sort ends with Error(ECANCELED) soon after a request
  // Called about once a megabyte by the thread that sorts: the one that pushes or has called the
  // sort, and for the array of a sorter the thread that merges. May throw, which ends the sort.
  SortProgressFunction progress = {};
};

}}  // namespace vortex::v0
