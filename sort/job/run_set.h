// The runs of a sort, whatever their records are, from the first until few enough are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "sort/merge/merge_passes.h"
#include "sort/runs/run_packing.h"
#include "sort/runs/run_store.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/sort_resources.h"

namespace vortex { inline namespace v0 {

// Keeps count of the runs and of their store, and says which neighbours are merged; what a run is,
// and merging some, is the business of a subclass. Neighbours only, so that equal records stay in
// their order. The pool and the watch outlive it. One thread at a time; after an exception it can
// only be destroyed.
class RunSet {
 public:
  // How runs are packed, see RunPacking.
  struct Packing {
    RunCompression compression = RunCompression::kNever;
    std::size_t block_bytes = 0;
    std::size_t record_bytes = 0;
  };
  RunSet(BlockPool& pool, SortWatch& watch, RunStoreOptions for_store, const Packing& packing);
  virtual ~RunSet();
  RunSet(const RunSet&) = delete;
  RunSet& operator=(const RunSet&) = delete;

  // Merges take another pool from now on, with blocks of the same size.
  void use(BlockPool& pool) noexcept;
  // Opens files and disks, which else the first run does. Throws Error as RunStore does.
  void open();
  // Closes the files, which gives the rest of their room back. Merges and runs must be gone.
  void close() noexcept { store_.reset(); }

  virtual std::size_t size() const noexcept = 0;
  bool empty() const noexcept { return size() == 0; }
  // The bytes of the runs that are left.
  std::uint64_t bytes() const noexcept { return bytes_of(0, size()); }
  const RunCounts& counts() const noexcept { return counts_; }
  std::vector<RunStoreDiskStatistics> disks() const;

  // Counts merges of inputs, whose results take the place of runs that were formed.
  void count_merge_of_inputs(unsigned merges) noexcept;

 protected:
  // Merges until at most `most` runs are left, as few of them as that takes, `largest` (2 at least)
  // at a time at most. Throws Error: ECANCELED, and as merge_to_one() does.
  void reduce(std::uint64_t most, std::uint64_t largest);

  RunStore& store() noexcept { return *store_; }
  // Once open() was called.
  RunPacking& packing() noexcept { return *packing_; }
  SortWatch& watch() noexcept { return watch_; }
  void count_run() noexcept { ++counts_.runs; }
  void count_bytes(std::uint64_t bytes) noexcept { counts_.bytes += bytes; }
  // The bytes of a run that has become the output do not count as a run's.
  void uncount_bytes(std::uint64_t bytes) noexcept { counts_.bytes -= bytes; }
  void count_last_merge() noexcept;

 private:
  virtual std::uint64_t bytes_of_run(std::size_t run) const noexcept = 0;
  // `count` runs, from `first` on, become one, which takes their place.
  virtual void merge_to_one(std::size_t first, std::size_t count) = 0;

  std::uint64_t bytes_of(std::size_t first, std::size_t count) const noexcept;
  std::size_t lightest(std::size_t count) const noexcept;
  void merge_neighbours(const MergePass& pass);

  BlockPool* pool_;
  SortWatch& watch_;
  RunStoreOptions for_store_;
  const Packing how_packed_;
  std::optional<RunPacking> packing_;
  std::optional<RunStore> store_;  // outlives the runs, which are the subclass's
  RunCounts counts_;
};

// Runs of one type, in the order of their records in the input.
template <typename Run>
class RunList : public RunSet {
 public:
  using RunSet::RunSet;

  std::size_t size() const noexcept final { return runs_.size(); }

 protected:
  const std::vector<Run>& runs() const noexcept { return runs_; }
  void add(Run run) { runs_.push_back(std::move(run)); }
  // For the last merge, which is counted.
  std::vector<Run> take_all() noexcept {
    count_last_merge();
    return std::exchange(runs_, {});
  }
  // Takes the only run, which is not merged.
  Run take_only() noexcept {
    Run run = std::move(runs_.front());
    runs_.clear();
    return run;
  }

 private:
  virtual std::uint64_t bytes_of(const Run& run) const noexcept = 0;
  // Writes the run that takes their place.
  virtual Run merged(std::vector<Run> runs) = 0;

  std::uint64_t bytes_of_run(std::size_t run) const noexcept final { return bytes_of(runs_[run]); }
  void merge_to_one(std::size_t first, std::size_t count) final {
    const auto begin = runs_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    std::vector<Run> group(std::make_move_iterator(begin), std::make_move_iterator(end));
    const auto place = runs_.erase(begin, end) - runs_.begin();
    Run run = merged(std::move(group));
    runs_.insert(runs_.begin() + place, std::move(run));
  }

  std::vector<Run> runs_;
};

}}  // namespace vortex::v0
