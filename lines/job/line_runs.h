// The runs of a sort of records of any length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lines/job/line_plan.h"
#include "lines/record/stored_record.h"
#include "lines/runs/line_merge.h"
#include "lines/runs/line_run.h"
#include "lines/runs/run_division.h"
#include "sort/job/run_set.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/runs/run_store.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/error.h"
#include "vortex/sort_resources.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

// The merge of a part of some runs, and what it reads them with. What the runs take on the disks is
// given back as it goes.
class RunMerge {
 public:
  // The forecasts of the runs are not needed any more when it has been made. Others may want its
  // memory, unless `running` is null; it outlives the merge.
  RunMerge(std::shared_ptr<std::vector<LineRun>> runs, const MergePart& part,
           const LinePrefetch& prefetch, const StoredOrder& order, bool punch_holes,
           const std::stop_token& stop, RunningMerges* running);
  // What is left of the runs is not read.
  ~RunMerge() { prefetcher_->stop(); }
  RunMerge(const RunMerge&) = delete;
  RunMerge& operator=(const RunMerge&) = delete;

  // As those of LineMerge.
  void start() {
    prefetcher_->start();
    merge_->start();
  }
  static constexpr SpanKind kWork = SpanKind::kMerge;
  bool next() { return merge_->next(); }
  const StoredRecord& stored() const noexcept { return merge_->stored(); }
  std::uint64_t in_common() const noexcept { return merge_->in_common(); }
  std::uint64_t count() const noexcept { return merge_->count(); }
  // Behind the last record, of which there is one: one that the order calls equal to it.
  StoredRecord last() const;

  // The records that it gives, each as many times as it is there, and the bytes of their text.
  // Equal ones that are dropped are counted.
  std::uint64_t counted() const noexcept { return counted_; }
  std::uint64_t text_bytes() const noexcept { return text_bytes_; }

 private:
  const std::uint64_t counted_;
  const std::uint64_t text_bytes_;
  const std::shared_ptr<std::vector<LineRun>> runs_;
  std::optional<MergePrefetcher> prefetcher_;
  const StoredOrder order_;
  std::vector<std::unique_ptr<RunCursor>> cursors_;
  std::vector<const RunCursor*> not_empty_;  // of these
  std::optional<LineMerge<RunCursor>> merge_;
  std::optional<RunningMerges::Scope> running_;
};

// Runs of records of any length. The plan outlives it.
class LineRuns final : public RunList<LineRun> {
 public:
  LineRuns(const StoredOrder& order, const LinePlan& plan, BlockPool& pool, SortWatch& watch,
           RunStoreOptions for_store);

  // Calls `write` with the writer of a new run of `most_bytes` at most. Throws what `write` throws
  // and what the disks report, and gives back what the run has taken.
  void form(std::uint64_t most_bytes, const std::function<void(LineRunWriter& run)>& write);
  // The same in steps: one run at a time stays open, and is none of the others before it ends.
  void open_run(std::uint64_t most_bytes);
  bool is_open() const noexcept { return open_.has_value() || falls(); }
  LineRunWriter& open_one() noexcept { return *open_; }
  void end_open();
  // What has been written since open_run() is the part of a run that falls: it comes before those
  // that were written before, if there are any. `last` was appended last, and the next record has
  // `in_common` with it. The run stays open; what opens next is another part of it.
  void end_part(const StoredRecord& last, std::uint64_t in_common);
  bool falls() const noexcept { return !parts_.empty(); }

  // As form(), of a run whose `parts` lie one behind the other and are written side by side: calls
  // `write` with the number and the writer of each, and then `end_of` with all numbers but the
  // last. Each has a record at least, and `most_bytes` at most.
  struct PartEnd {
    StoredRecord last;            // record of the part
    std::uint64_t in_common = 0;  // of the next record with that
  };
  using WritePart = std::function<void(std::size_t part, LineRunWriter& run)>;
  using EndOfPart = std::function<PartEnd(std::size_t part)>;
  void form_in_parts(std::size_t parts, std::uint64_t most_bytes, detail::ThreadTeam& team,
                     const WritePart& write, const EndOfPart& end_of);

  // As form_in_parts(), of the last run of all, which stays in memory that is taken for it. Returns
  // how much that is; 0: the system refuses it, and nothing was written. Only where may_keep() says
  // that the merge of all runs, of which there are some on the disks, has as many buffers, parts
  // and branches beside as without.
  bool may_keep(std::uint64_t bytes) const;
  std::uint64_t keep_in_parts(std::size_t parts, std::uint64_t most_bytes, detail::ThreadTeam& team,
                              const WritePart& write, const EndOfPart& end_of);

  // Merges until one merge can take all that are left, in half of the memory if that is to do and
  // two fit in it; in `most_parts` at most, for which LinePlan::runs_to_leave() has some runs more
  // merged. Each run is written in parts by as many threads of the team as there is memory for;
  // null: by the caller alone. Throws Error(ENOMEM) when the memory does not hold a merge of two.
  void reduce_to_one_merge(bool in_half, unsigned most_parts, detail::ThreadTeam* team);
  // The last merge, whose records come next: in several parts, `most_parts` at most, which lie one
  // behind the other and may be merged at the same time; in one where the memory or the runs are
  // small, or records are long.
  std::vector<std::unique_ptr<RunMerge>> merge_all(RunningMerges& running, unsigned most_parts = 1);
  // The same for a MergeTree: each merges neighbours of the runs. None: the memory or the runs are
  // small, or records long, and nothing was taken.
  std::vector<std::unique_ptr<RunMerge>> merge_branches(RunningMerges& running);

 private:
  std::uint64_t bytes_of(const LineRun& run) const noexcept override { return run.run.bytes; }
  LineRun merged(std::vector<LineRun> runs) override;
  std::vector<LineRun> take_for_merge();
  unsigned branches_for(const LinePlan& plan) const;
  void begin_run(std::optional<LineRunWriter>& run, std::uint64_t most_bytes);
  RunPacking& packing_of_part(std::size_t part);
  LineRun finish(LineRunWriter& run);
  using Writers = std::vector<std::unique_ptr<LineRunWriter>>;
  static LineRun written_in_parts(const Writers& writers, detail::ThreadTeam& team,
                                  const WritePart& write, const EndOfPart& end_of);
  static LineRun finished(const Writers& writers, const EndOfPart& end_of);
  using Group = std::shared_ptr<std::vector<LineRun>>;
  std::vector<MergePart> divided(const std::vector<LineRun>& group,
                                 const LineMergeSize& size) const;
  Writers writers_of(const std::vector<LineRun>& group, const std::vector<MergePart>& parts);
  // What a part of a run begins and ends with.
  struct PartEnds;
  std::vector<PartEnds> merge_to(const Writers& writers, Group group,
                                 const std::vector<MergePart>& parts, const LinePrefetch& prefetch);
  void merge_part(RunMerge& merge, std::uint64_t most, LineRunWriter& run, PartEnds* ends,
                  Written told);

  const StoredOrder order_;
  const LinePlan& plan_;
  std::optional<LineRunWriter> open_;
  std::vector<LineRun> parts_;   // of a run that falls
  std::optional<LineRun> kept_;  // in memory, behind all others
  std::vector<std::unique_ptr<RunPacking>> packing_of_parts_;
  detail::ThreadTeam* team_ = nullptr;  // of merges to runs
};

// The first records that a cursor goes to, each counted as many times as it is there.
template <typename Cursor>
class FirstOfCursor {
 public:
  // `most` of them; 0: all.
  FirstOfCursor(Cursor& cursor, std::uint64_t most) noexcept
      : cursor_(cursor), left_(most == 0 ? ~std::uint64_t{0} : most) {}

  static constexpr SpanKind kWork = Cursor::kWork;
  bool next() {
    left_ -= count_;
    count_ = 0;
    if (left_ == 0 || !cursor_.next()) return false;
    count_ = std::min(cursor_.count(), left_);
    return true;
  }
  const StoredRecord& stored() const noexcept { return cursor_.stored(); }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t in_common() const noexcept { return cursor_.in_common(); }

 private:
  Cursor& cursor_;
  std::uint64_t left_;
  std::uint64_t count_ = 0;
};

// Calls `use` for each record that the cursor goes to, and `told` now and then with the bytes of
// those since the last time. A Cursor has next(), stored() and count(), and kWork for traces.
// Throws the failures of streams that the cursor or `use` meets, and what `told` throws.
template <typename Cursor, typename Use, typename Told>
void for_each_record(Cursor& cursor, const Use& use, const Told& told) {
  bool more = true;
  while (more) {
    std::uint64_t bytes = 0;
    const WorkSpan span(Cursor::kWork);
    guarded([&] {
      while (bytes < SortWatch::kNoteBytes && (more = cursor.next())) {
        use(cursor);
        bytes += cursor.count() * (cursor.stored().record.size() + 1);
      }
    }).throw_if_failed();
    told(bytes);
  }
}

}}  // namespace vortex::v0
