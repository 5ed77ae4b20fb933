// Merges sorted runs from the disks into one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sort/merge/merge_prefetcher.h"
#include "sort/merge/order_of_need.h"
#include "sort/merge/record_division.h"
#include "sort/record/record_output.h"
#include "sort/runs/run.h"
#include "vortex/input_stream.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/askers.h"

namespace vortex { inline namespace v0 {

// Of one PartMerge.
struct RunMergeOptions {
  PrefetchKind kind = PrefetchKind::kOptimal;
  // Blocks for input in all, those that the merge holds included; see minimum_read_buffers().
  std::size_t read_buffers = 0;
  std::size_t working_bytes = 0;   // of memory beside the pool, see MergeRoom
  unsigned threads = 1;            // the same
  bool unique = false;             // of records with equal keys only the first is kept
  std::uint64_t most_records = 0;  // that are appended: the first; 0: all
  MergeInput in_memory = {};       // sorted records that come behind those of all runs
  // The file system gets the space of the runs back as they are merged. For the last merge; before
  // that the slots are soon used again.
  bool punch_holes = false;
  const std::atomic<bool>* cancelled = nullptr;  // may become true at any time, on any thread
  // Called by the merging thread from time to time, and at the end, with the bytes that have been
  // merged. Must not throw.
  std::function<void(std::uint64_t merged_bytes)> progress = {};
  MergePrefetcherStatistics* statistics = nullptr;  // set at the end
  Askers* askers = nullptr;                         // for whom the threads of the merge ask
  RunningMerges* running = nullptr;                 // others may want the memory of this merge
};

// The order in which a merge through plain pointers needs the blocks of these slices, each numbered
// from the first of its slice; computed whole and outside faults, where comparators of users may do
// as they like, and long keys may be read from the disks. Throws Error when that fails.
std::unique_ptr<OrderOfNeed> order_of_runs(const RecordOrder& order,
                                           std::span<const RunSlice> slices);

// The merge of a part of some runs: every run is an input stream over one prefetcher, the merge a
// loop over plain pointers; the runs' slots are given back as it goes. Several, one for each part,
// may go on side by side, each in a thread of its own with `threads` in all. Barve and Vitter,
// section 2.2; SPAA paper, section 2.
class PartMerge {
 public:
  // The order and the store outlive it. The forecasts of the runs are not needed any more when it
  // has been made. Throws Error: ENOBUFS or ENOMEM when read_buffers or the pool are too small (and
  // how many would do).
  PartMerge(const RecordOrder& order, RunStore& store, std::shared_ptr<std::vector<Run>> runs,
            const RecordPart& part, RunMergeOptions options);
  // What is left of the runs is not read.
  ~PartMerge() { prefetcher_->stop(); }
  PartMerge(const PartMerge&) = delete;
  PartMerge& operator=(const PartMerge&) = delete;

  // That the part has, those with equal keys included.
  std::uint64_t records() const noexcept { return records_; }

  // Appends the records to `out`, in order; equal records come in the order of their runs, and
  // those that are in memory last. Returns how many were appended. What comes behind the last of
  // them is not merged. To be called once. Throws Error: what disks and streams report, ECANCELED;
  // then what `out` got is not whole. Errors of streams behind `out` come back in the same way. Not
  // inside a fault.
  std::uint64_t merge_to(RecordOutput& out);

 private:
  void open_streams(std::size_t window);

  const RecordOrder& order_;
  const RunMergeOptions options_;
  const std::shared_ptr<std::vector<Run>> runs_;
  const std::uint64_t records_;
  std::optional<MergePrefetcher> prefetcher_;
  std::optional<RunningMerges::Scope> running_;
  // A stream from each run, as a pointer to its records, and what is in memory.
  std::vector<std::unique_ptr<InputStream<std::byte>>> streams_;
  std::vector<MergeInput> inputs_;
  std::vector<std::size_t> skipped_;
  // First records that lie in two blocks, which a merge may touch at their end first.
  std::vector<const std::byte*> in_two_;
  std::unique_ptr<RecordMerge> merge_;
};

// All records of the runs, as one part. Returns how many were appended, and throws as that.
std::uint64_t merge_runs(const RecordOrder& order, RunStore& store, std::vector<Run> runs,
                         RecordOutput& out, const RunMergeOptions& options);

}}  // namespace vortex::v0
