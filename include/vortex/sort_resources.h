// The resources that a sort may use: memory and disks. The caller may also follow and stop the
// sort.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/detail/export.h"
#include "vortex/disk.h"
#include "vortex/file_access.h"

namespace vortex::inline v0 {

// How much memory this process may take: the machine's, and the limit of its control group.
struct MemoryLimits {
  std::uint64_t machine_bytes = 0;    // MemTotal
  std::uint64_t available_bytes = 0;  // MemAvailable
  // The lowest limit on the way from the process's control group to the root, if one is set, and
  // the file that sets it.
  std::optional<std::uint64_t> group_bytes;
  std::string group_file;

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
// machine and in the control group, and no more than 1 GiB; blocks are populated and pinned ahead,
// which takes time.
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

// How many runs and merges a sort took.
struct RunCounts {
  std::uint64_t runs = 0;   // that were formed
  unsigned merges = 0;      // the last one included
  unsigned passes = 0;      // merges of a record on its way, at most
  std::uint64_t bytes = 0;  // written to the disks in all
};

// Makes the disk of a folder in which runs are kept, or, for an empty name, the one that inputs are
// read and the output is written with. Disks of a kind or a depth of one's own come in here.
using SortDiskFunction = std::function<std::unique_ptr<Disk>(const std::string& folder)>;

// The same for sorts of files and for sorters.
struct SortResources {
  // For everything that is resident: blocks, scratch, tables, streams, buffers, and of the program
  // 16 MiB, or a thirty-second part of this where that is less. 0: default_memory_bytes().
  std::uint64_t memory_bytes = 0;
  // Where runs are kept, a disk each. Empty: the folder of the output where that is a file, else
  // $TMPDIR or /tmp.
  std::vector<std::string> folders = {};
  // How fast the disk of each folder is, in bytes a second or any other unit: a folder gets that
  // share of the runs, but no more than it has room for. Empty: all are equally fast.
  std::vector<double> folder_speeds = {};
  std::size_t block_bytes = 0;  // 0: what suits the memory
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  DiskBackend backend = DiskBackend::kBest;
  Caching caching = Caching::kAuto;  // of inputs, runs and output; runs go around the page cache
                                     // unless this is kBuffered
  SortDiskFunction open_disk = {};   // instead of disks of the backend
  std::uint64_t seed = 1;            // which run lies on which disk
  std::stop_token stop = {};         // the sort ends with Error(ECANCELED) soon after a request
  // Called about once a megabyte by the thread that sorts: the one that pushes or has called the
  // sort, and for the array of a sorter the thread that merges. May throw, which ends the sort.
  SortProgressFunction progress = {};
};

}  // namespace vortex::inline v0
