// The runs of a sort, from the first to the one that is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sort/merge/merge_passes.h"
#include "sort/merge/running_merge.h"
#include "sort/record/record_output.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"

namespace vortex::inline v0 {

// Keeps runs on disks, in the order in which they were added, and merges them until few enough are
// left. It merges neighbours only, so that equal records stay in their order. The order, the plan,
// the pool and the watch outlive it. One thread at a time; after an exception it can only be
// destroyed.
class RunCollection {
 public:
  // Writes records, in order.
  using Writing = std::function<void(RecordOutput& out)>;

  RunCollection(const RecordOrder& order, const SortPlan& plan, BlockPool& pool, SortWatch& watch,
                RunStoreOptions for_store, bool unique);

  // Merges take another pool from now on, with blocks of the same size.
  void use(BlockPool& pool) noexcept;

  // Opens files and disks, which else the first run does. Throws Error as RunStore does.
  void open();

  bool empty() const noexcept { return runs_.empty(); }
  std::size_t size() const noexcept { return runs_.size(); }
  const RunCounts& counts() const noexcept { return counts_; }
  std::vector<RunStoreDiskStatistics> disks() const;

  // The bytes of the runs that are left.
  std::uint64_t bytes() const noexcept;

  // Calls `write` with an output that is a new run of `most_bytes` at most. Throws what `write`
  // throws and what the disks report.
  void form(std::uint64_t most_bytes, const Writing& write);
  // The same in two steps: an output that becomes a run when it is ended. `write_behind` as for a
  // RunWriter.
  RecordOutput& begin(std::size_t write_behind, std::uint64_t most_bytes);
  void end();
  // Counts a merge of inputs, whose result takes the place of runs that were formed.
  void count_merge_of_inputs(unsigned merges) noexcept;

  // Merges until at most `most` runs are left, as few of them as that takes. Throws Error(ENOMEM)
  // when the memory does not hold a merge of two.
  void reduce_to(std::uint64_t most);

  // How many runs the last merge takes at most.
  std::uint64_t last_merge_order() const;

  // Appends the records of all runs to `out`; where the file systems have little room, that of the
  // runs is given back as it goes. Others may want the memory of the merge that is `running`.
  void merge_all(RecordOutput& out, std::size_t read_buffers, RunningMerge* running = nullptr);

  // Closes the files, which gives the rest of their room back. Merges and runs must be gone.
  void close() noexcept { store_.reset(); }

 private:
  void add(std::size_t write_behind, std::uint64_t most_bytes, const Writing& write);
  void merge(std::vector<Run> runs, RecordOutput& out, std::size_t read_buffers, bool last,
             RunningMerge* running = nullptr);
  void merge_neighbours(const MergePass& pass);

  const RecordOrder& order_;
  const SortPlan& plan_;
  BlockPool* pool_;
  SortWatch& watch_;
  const RunStoreOptions for_store_;
  const bool unique_;
  std::optional<RunStore> store_;
  std::optional<RunWriter> writer_;
  std::vector<Run> runs_;
  RunCounts counts_;
};

}  // namespace vortex::inline v0
