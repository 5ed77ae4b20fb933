// Sorting files that are larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "io/open_disk.h"
#include "sort/prefetch_kind.h"
#include "sort/record_format.h"
#include "sort/sort_plan.h"

namespace vortex {

// What a sort is doing, for progress reports.
enum class SortPhase : std::uint8_t {
  kReading,  // reading the input, sorting parts of it
  kMerging,  // merging runs to longer ones
  kWriting,  // writing the output
};

// "reading", "merging", "writing".
std::string_view to_string(SortPhase phase) noexcept;

struct SortProgress {
  SortPhase phase = SortPhase::kReading;
  std::uint64_t bytes = 0;                        // dealt with in this phase
  std::optional<std::uint64_t> phase_bytes = {};  // in all; none: not known, the input is a pipe
};

struct ExternalSortOptions {
  // In this order: of records with equal keys, those of an earlier input come first. "-" is
  // standard input.
  std::vector<std::string> inputs = {};
  std::string output = {};  // "-" is standard output
  RecordFormat format;
  std::uint64_t memory_bytes = 0;  // for everything: blocks, scratch, tables
  // Where runs are kept, a disk each. Empty: the folder of the output, or the current one.
  std::vector<std::string> folders = {};
  std::size_t block_bytes = 0;  // 0: what suits the memory
  bool unique = false;          // of records with equal keys, only the first is written
  bool merge_inputs = false;    // every input is sorted already
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  DiskBackend backend = DiskBackend::kBest;
  std::uint64_t seed = 1;     // which run lies on which disk
  std::stop_token stop = {};  // the sort ends with Error(ECANCELED) soon after a request
  // Called about once a megabyte, on the calling thread. May throw, which ends the sort.
  std::function<void(const SortProgress&)> progress = {};
};

struct ExternalSortReport {
  SortPlan plan;
  std::uint64_t records_in = 0;
  std::uint64_t records_out = 0;
  std::size_t record_bytes = 0;
  std::uint64_t runs = 0;       // in the folders; 0: everything fitted in memory
  unsigned merges = 0;          // the last one included
  unsigned passes = 0;          // merges of a record on its way, at most
  std::uint64_t run_bytes = 0;  // written to the folders in all
  // What the disks moved: inputs, runs and output.
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  // What they have to move at least, reading and writing added up: everything once each way where
  // it is sorted in memory, else twice. Divided by their speed it is the lower bound of the time,
  // or cpu_seconds where that is more.
  std::uint64_t least_io_bytes = 0;
  // Of the sorting thread, disks' threads left out: the time it would take with disks that are
  // infinitely fast.
  double cpu_seconds = 0;
  double run_formation_seconds = 0;
  double merge_seconds = 0;  // until the output was complete and synced
  double seconds = 0;

  std::uint64_t io_bytes() const noexcept { return read_bytes + written_bytes; }
};

// The plan that external_sort() would follow. Opens the inputs, reads nothing, writes nothing.
// Throws Error as external_sort() does.
SortPlan plan_external_sort(const ExternalSortOptions& options);

// Sorts the records of the inputs, stable, into the output. Runs of about the memory's size are
// sorted and kept in the folders, in files without a name; a merge of order k reads them again, as
// many times as it takes. What fits in memory is read and written once.
//
// Inputs are not changed. The output appears under its name when it is complete and synced, and
// whatever happens before leaves nothing behind; it may be one of the inputs. A symbolic link is
// kept, and what it points to is replaced. The mode of a file that is replaced is kept. Devices and
// pipes are written to in order.
//
// Blocks; allocates; uses the SIGSEGV handler. One sort uses one thread beside those of its disks.
// Throws Error: EINVAL (length of an input that is no multiple of the record's, wrong options),
// ENOMEM (too little memory, with the least that would do), ENOSPC (too little room, found out
// before the start where the lengths are known), ECANCELED, EBUSY (an input changed meanwhile), and
// whatever the disks report.
ExternalSortReport external_sort(const ExternalSortOptions& options);

}  // namespace vortex
