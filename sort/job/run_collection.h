// The runs of a sort of records of one length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/file/block_file.h"
#include "sort/job/run_set.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/merge/record_division.h"
#include "sort/merge/run_merge.h"
#include "sort/plan/record_plan.h"
#include "sort/record/record_output.h"
#include "sort/runs/run.h"
#include "sort/runs/run_packing.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// Runs of records of one length. The order and the plan outlive it.
class RunCollection final : public RunList<Run> {
 public:
  // Writes records, in order.
  using Writing = std::function<void(RecordOutput& out)>;

  RunCollection(const RecordOrder& order, const RecordPlan& plan, BlockPool& pool, SortWatch& watch,
                RunStoreOptions for_store, bool unique, Askers* askers);

  // Calls `write` with an output that is a new run of `most_bytes` at most. Throws what `write`
  // throws and what the disks report.
  void form(std::uint64_t most_bytes, const Writing& write);
  // The same in two steps: an output that becomes a run when it is ended. `write_behind` and `wide`
  // as for a RunWriter. A run that end_spilled() ends is not counted.
  RecordOutput& begin(std::size_t write_behind, std::uint64_t most_bytes,
                      std::uint64_t expected_bytes = kAsLongAsMayBe, std::size_t wide = 0);
  // The same for a run that comes in parts, from its last one on (FallingRunWriter). If there is
  // one folder, and it becomes the first run, of `whole_bytes`, it is as it is in a file.
  RecordOutput& begin_falling(std::size_t write_behind, std::uint64_t most_bytes,
                              std::uint64_t whole_bytes, std::uint64_t expected_bytes,
                              std::size_t wide);
  void begin_part(std::size_t bytes) { falling_->begin_part(bytes); }
  void end();
  void end_spilled();
  // Merges until at most `most` runs are left, as few of them as that takes, each by as many
  // threads as there is memory for. Throws Error(ENOMEM) when it does not hold a merge of two.
  void reduce_to(std::uint64_t most);

  // Whether one run is left, whose bytes are the first of a file; and that file, instead of a
  // merge. Of the collection only counts() and disks() are asked for then.
  bool is_in_file() const noexcept { return size() == 1 && runs().front().begins_file(); }
  BlockFile take_file();

  // How many runs the last merge takes at most.
  std::uint64_t last_merge_order() const;

  // Appends the records of all runs to `out`, and what is `in_memory` behind those that are equal;
  // where the file systems have little room, that of the runs is given back as it goes. Others may
  // want the memory of the merge that is `running`.
  void merge_all(RecordOutput& out, std::size_t read_buffers, RunningMerges* running = nullptr,
                 const MergeInput& in_memory = {});
  // The same in several parts, as many as there is memory for and `most_parts` at most, which lie
  // one behind the other and may be merged side by side, each with the buffers that
  // RecordPlan::merge_buffers() says for so many.
  std::vector<std::unique_ptr<PartMerge>> merge_parts(unsigned most_parts, RunningMerges* running,
                                                      const MergeInput& in_memory);

 private:
  std::uint64_t bytes_of(const Run& run) const noexcept override { return run.bytes - run.skipped; }
  Run merged(std::vector<Run> runs) override;
  using PartWriters = std::vector<std::unique_ptr<RunPartWriter>>;
  RunPacking& packing_of_part(std::size_t part);
  PartWriters writers_of(std::span<const RecordPart> parts, std::size_t write_behind);
  Run merged_in_parts(const std::shared_ptr<std::vector<Run>>& runs,
                      std::span<const RecordPart> parts);
  Run write_run(std::size_t write_behind, std::uint64_t most_bytes, const Writing& write);
  Run finish_run();
  RunMergeOptions merge_options(std::size_t read_buffers, unsigned merges = 1);

  const RecordOrder& order_;
  const RecordPlan& plan_;
  const bool unique_;
  Askers* const askers_;  // for whom merges ask
  // One of them.
  std::optional<RunWriter> writer_;
  std::optional<FallingRunWriter> falling_;
  // Of merges to runs.
  std::vector<std::unique_ptr<RunPacking>> packing_of_parts_;
  std::optional<detail::ThreadTeam> team_;
};

}}  // namespace vortex::v0
