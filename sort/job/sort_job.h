// One external sort, whichever way its records come in and go out.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sort/job/run_collection.h"
#include "sort/job/sort_context.h"
#include "sort/plan/record_plan.h"
#include "sort/record/first_records.h"
#include "sort/record/record_output.h"
#include "sort/runs/run_formation.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/memory_budget.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/askers.h"
#include "vortex/thread/background_task.h"
#include "vortex/thread/futex.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

// The plan, the pool of blocks, the runs and the watch of a sort. Sorts of files (FileSort) and
// sorters (ByteSorter) are two pairs of ends to it: one reads files and writes a file, the other
// takes what is pushed and writes into a pipeline.
//
//   SortJob job(order, context, unique);
//   job.start(plan_sort(job.plan_request({}, 0)), Warming::kOnDemand, "memory of the sort");
//   job.begin_forming();
//   while (...) job.take(records, count, readers);  // writes runs
//   job.end_forming();
//   if (!job.in_memory()) job.runs().reduce_to(...);
//   job.write(out, read_buffers);
//
// With two threads or more, runs are sorted and written beside the thread that calls take(), which
// partitions what comes next into the memory that becomes free.
//
// Others that share a budget with it may want its memory: end_forming() gives back what merging
// does not need, and write() what has been read ahead, what is sorted in memory, and, when it ends,
// the rest.
//
// One thread at a time. After an exception it can only be destroyed.
class SortJob final {
 public:
  // The context outlives it.
  SortJob(std::shared_ptr<const RecordOrder> order, SortContext& context, bool unique);
  ~SortJob();
  SortJob(const SortJob&) = delete;
  SortJob& operator=(const SortJob&) = delete;

  const RecordOrder& order() const noexcept { return *order_; }
  SortWatch& watch() noexcept { return context_.watch(); }

  // The request for this sort's plan, for an input of `bytes`, if that is known.
  // `other_disks` is the number of disks for other files than runs. May measure the disks.
  SortPlanRequest plan_request(std::optional<std::uint64_t> bytes, unsigned other_disks) const;

  // Makes the pool, which `name` describes in messages. `run_file`, where it is given, makes the
  // file for runs of the only folder, in whichever thread needs it; a single run there may become
  // the output. Throws Error as BlockPool does.
  void start(const RecordPlan& plan, Warming warming, const char* name,
             const std::function<BlockFile()>& run_file = {});
  // end_forming() may enlarge or shrink both for merging, when the sort has a share of a budget.
  const RecordPlan& plan() const noexcept { return plan_; }
  const std::shared_ptr<BlockPool>& pool() const noexcept { return context_.pool(); }
  // Not between the first take() and end_forming(): another thread may use them then.
  RunCollection& runs() noexcept { return *runs_; }
  const RunCollection& runs() const noexcept { return *runs_; }

  // Run formation takes its part of the pool. Throws Error as RunFormation does.
  void begin_forming();
  // Takes `count` records, one behind the other at any address; the array of a stream, too: where
  // reading that fails, its error is thrown. Blocks while the memory is full. Throws Error:
  // ECANCELED, what the disks report, what the progress function throws.
  void take(const std::byte* records, std::uint64_t count, Readers readers);
  // That were taken.
  std::uint64_t records() const noexcept { return records_; }
  // That write() writes at most.
  std::uint64_t most_records() const noexcept {
    return plan_.first_records == 0 ? records_ : std::min(records_, plan_.first_records);
  }
  // No more come. Unless all of them are in memory, the rest becomes the last run, which stays in
  // memory as far as merging the others leaves it.
  void end_forming();
  // No run has been begun.
  bool in_memory() const noexcept { return in_memory_ && runs_->empty(); }
  // Bytes of records, of equal ones with `unique` the first, which write() has to write.
  std::uint64_t bytes_to_write() const noexcept;
  // The only run lies in a file that can take the output's place.
  bool run_is_output() const noexcept { return may_be_output_ && !kept_ && runs_->is_in_file(); }
  // The counts of the runs at the end of the last call, and after expect_write() of the last merge.
  const RunCounts& counts() const noexcept { return counts_; }

  // An output that need not wait inside a fault. `has_room` waits until there is room for as many
  // bytes in all and returns true, or returns false when `given_up` is true; `wake` makes it look.
  struct PatientOutput {
    std::function<bool(std::uint64_t bytes, const std::atomic<bool>& given_up)> has_room;
    std::function<void()> wake;
  };
  // Before a write(), in whichever thread that is: who waits for memory is not told before the end
  // of write() that there is none to be had. With a patient output, which outlives the job's last
  // call, what is sorted in memory may be written to the disks instead.
  void expect_write(PatientOutput out = {});
  // Appends everything to `out` in order, with `unique` only the first of equal records: from
  // memory, or by the last merge, which takes `read_buffers` of the pool. Throws as take() does,
  // and what `out` throws; errors of streams behind `out`, too.
  void write(RecordOutput& out, std::size_t read_buffers);
  // Instead, unless all is in memory: calls `write` with the last merge, see
  // RunCollection::merge_parts(). It writes their records, those of each part in any thread.
  using PartMerges = std::vector<std::unique_ptr<PartMerge>>;
  void write_parts(unsigned most_parts, const std::function<void(PartMerges& parts)>& write);

 private:
  // On every way out of a write.
  struct Ended {
    SortJob& job;
    ~Ended() { job.end_write(); }
  };
  void end_write() noexcept;
  MergeInput kept_records() const noexcept { return kept_ ? kept_->records() : MergeInput{}; }
  bool give_back_emptied(std::uint64_t wanted) noexcept;
  void write_from_memory(RecordOutput& out);
  RecordOutput& begin_spill();
  void write_spilled(RecordOutput& out);
  std::size_t blocks_for_spilled() const;

  RecordOutput& begin_run(bool falls);
  // A run that is written, with what its records pass.
  struct OpenRun {
    OpenRun(SortJob& job, Written written, bool falls);

    WatchedOutput watched;
    SortedOutput sorted;
  };

  Askers* askers() noexcept { return for_order_ ? &*for_order_ : nullptr; }
  void take_first(const std::byte* records, std::uint64_t count, Readers readers);
  void put(const std::byte* records, std::uint64_t count, Readers readers);
  void shrink();
  bool begins_early() const noexcept;
  void begin_runs();
  bool close_next();
  void keep_ahead();
  void make_room(std::uint32_t ticket);
  // Until a block has been given back since the ticket, or nothing is emitted any more.
  void await_room(std::uint32_t ticket);
  bool can_keep_rest() const;
  void keep_rest();
  void wait_for_runs();
  void emit_closed();
  void emit_next(Written written);
  void emit_all(RecordOutput& out);

  const std::shared_ptr<const RecordOrder> order_;
  std::optional<Askers> for_order_;  // where it calls the program, and several threads do
  SortContext& context_;
  const bool unique_;
  RecordPlan plan_;
  std::optional<RunCollection> runs_;
  bool may_be_output_ = false;  // a run
  std::optional<StreamPool> buckets_;
  std::optional<RunFormation> formation_;
  std::optional<KeptRecords> kept_;  // the last run
  // Of a sort that wants the first records only: these, if they are few, no formation, and blocks
  // that stay unused for them; or what its runs tell of them.
  std::optional<BlockQuota> of_few_;
  std::optional<FirstRecords> few_;
  std::optional<FirstBound> bound_;
  std::uint64_t records_ = 0;
  bool in_memory_ = true;
  bool emits_beside_ = false;   // in the background
  std::optional<OpenRun> run_;  // of the thread that emits
  RunCounts counts_;
  FutexMutex written_mutex_;  // guards
  RunCounts written_;         // counts of the runs that have been written

  std::optional<BlockQuota> for_spill_;
  PatientOutput patient_;
  std::atomic<bool> spill_{false};

  BackgroundTask background_;  // writes runs; destroyed first
};

}}  // namespace vortex::v0
