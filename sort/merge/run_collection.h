// The runs of a sort, from the first to the one that is left.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sort/merge/run_merge.h"
#include "sort/record/record_order.h"
#include "sort/runs/merge_passes.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/sort_plan.h"

namespace vortex::inline v0 {

struct RunCounts {
  std::uint64_t runs = 0;   // that were formed
  unsigned merges = 0;      // the last one included
  unsigned passes = 0;      // merges of a record on its way, at most
  std::uint64_t bytes = 0;  // written to the disks in all
};

// Keeps runs on disks, in the order in which they were added, and merges them until few enough are
// left. Neighbours only are merged, so that equal records stay in their order. What it refers to
// outlives it. One thread at a time; after an exception it can only be destroyed.
template <RecordOrder O>
class RunCollection {
 public:
  RunCollection(const O& order, const SortPlan& plan, BlockPool& pool, SortWatch& watch,
                RunStoreOptions for_store, bool unique)
      : order_(order),
        plan_(plan),
        pool_(pool),
        watch_(watch),
        for_store_(std::move(for_store)),
        unique_(unique) {}

  // Opens files and disks, which else the first run does. Throws Error as RunStore does.
  void open() {
    if (!store_) store_.emplace(pool_, for_store_);
  }

  bool empty() const noexcept { return runs_.empty(); }
  std::size_t size() const noexcept { return runs_.size(); }
  const RunCounts& counts() const noexcept { return counts_; }
  std::vector<RunStoreDiskStatistics> disks() const {
    return store_ ? store_->statistics() : std::vector<RunStoreDiskStatistics>{};
  }

  // Of the runs that are left.
  std::uint64_t bytes() const noexcept { return bytes_of(runs_); }

  // Calls `write` with a RecordOutput that writes to a new run of `most_bytes` at most. Throws what
  // `write` throws and what the disks report.
  template <typename Write>
  void form(std::uint64_t most_bytes, Write write) {
    add(plan_.run_write_behind, most_bytes, write);
    ++counts_.runs;
  }
  // The runs that were formed are the result of a merge.
  void count_merge_of_inputs(unsigned merges) noexcept {
    counts_.merges += merges;
    counts_.passes = 1;
  }

  // Merges until at most `most` runs are left, as few of them as that takes.
  void reduce_to(std::uint64_t most) {
    if (runs_.size() <= most) return;
    const std::uint64_t largest = plan_.largest_merge_order();
    if (largest < 2) {
      throw Error(ENOMEM, "merging with " + format_bytes(plan_.request.memory_bytes) +
                              " of memory: no two runs fit; raise it");
    }
    while (runs_.size() > most) {
      merge_neighbours(next_merge_pass(runs_.size(), most, largest));
      ++counts_.passes;
    }
  }

  // How many runs the last merge takes at most.
  std::uint64_t last_merge_order() const {
    if (runs_.size() < 2) return 1;
    const std::uint64_t largest = plan_.largest_merge_order();
    return largest < 2 ? 1 : std::min<std::uint64_t>(runs_.size(), largest);
  }

  // Appends the records of all runs to `out`; the room of the runs is given back as it goes.
  template <RecordOutput Output>
  void merge_all(Output& out, std::size_t read_buffers) {
    ++counts_.merges;
    ++counts_.passes;
    merge(std::exchange(runs_, {}), out, read_buffers, true);
  }

 private:
  static std::uint64_t bytes_of(std::span<const Run> runs) noexcept {
    std::uint64_t bytes = 0;
    for (const Run& run : runs) bytes += run.bytes;
    return bytes;
  }

  template <typename Write>
  void add(std::size_t write_behind, std::uint64_t most_bytes, Write write) {
    open();
    RunWriter<O> writer(order_, *store_, write_behind, most_bytes, watch_.stop());
    write(writer);
    Run run = writer.finish();
    counts_.bytes += run.bytes;
    runs_.push_back(std::move(run));
  }

  template <RecordOutput Output>
  void merge(std::vector<Run> runs, Output& out, std::size_t read_buffers, bool last) {
    RunMergeOptions options;
    options.kind = plan_.request.prefetch;
    options.read_buffers = read_buffers;
    options.unique = unique_;
    options.punch_holes = last;
    options.cancelled = &watch_.stopped();
    merge_runs(order_, *store_, std::move(runs), out, options);
  }

  // The neighbours with the fewest bytes. The others stay as they are.
  void merge_neighbours(const MergePass& pass) {
    std::vector<Run> before = std::exchange(runs_, {});
    const std::size_t begin = lightest(before, pass.merged);
    const std::size_t end = begin + pass.merged;
    watch_.begin(SortPhase::kMerging, bytes_of(std::span(before).subspan(begin, pass.merged)));
    for (std::size_t i = 0; i < begin; ++i) runs_.push_back(std::move(before[i]));
    std::size_t first = begin;
    for (std::uint64_t groups = pass.groups; groups > 0; --groups) {
      watch_.expect_going();
      const std::size_t last = first + (end - first + groups - 1) / groups;
      std::vector<Run> group;
      for (; first < last; ++first) group.push_back(std::move(before[first]));
      const MergeBuffers buffers = plan_.merge_buffers(group.size());
      add(buffers.run_write_behind, bytes_of(group), [&](auto& out) {
        WatchedOutput watched(out, order_.record_bytes(), watch_);
        merge(std::move(group), watched, buffers.read_buffers, false);
      });
      ++counts_.merges;
    }
    for (std::size_t i = end; i < before.size(); ++i) runs_.push_back(std::move(before[i]));
  }

  // Where the `count` neighbours with the fewest bytes begin.
  static std::size_t lightest(const std::vector<Run>& runs, std::size_t count) noexcept {
    std::uint64_t bytes = bytes_of(std::span(runs).first(count));
    std::uint64_t least = bytes;
    std::size_t best = 0;
    for (std::size_t i = 1; i + count <= runs.size(); ++i) {
      bytes += runs[i + count - 1].bytes - runs[i - 1].bytes;
      if (bytes > least) continue;
      least = bytes;
      best = i;
    }
    return best;
  }

  const O& order_;
  const SortPlan& plan_;
  BlockPool& pool_;
  SortWatch& watch_;
  const RunStoreOptions for_store_;
  const bool unique_;
  std::optional<RunStore> store_;
  std::vector<Run> runs_;
  RunCounts counts_;
};

}  // namespace vortex::inline v0
