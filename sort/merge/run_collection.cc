#include "sort/merge/run_collection.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "sort/merge/run_merge.h"
#include "sort/runs/run_writer.h"
#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

std::uint64_t bytes_of(std::span<const Run> runs) noexcept {
  std::uint64_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return bytes;
}

// Where the `count` neighbours with the fewest bytes begin.
std::size_t lightest(const std::vector<Run>& runs, std::size_t count) noexcept {
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

}  // namespace

RunCollection::RunCollection(const RecordOrder& order, const SortPlan& plan, BlockPool& pool,
                             SortWatch& watch, RunStoreOptions for_store, bool unique)
    : order_(order),
      plan_(plan),
      pool_(&pool),
      watch_(watch),
      for_store_(std::move(for_store)),
      unique_(unique) {}

void RunCollection::use(BlockPool& pool) noexcept {
  pool_ = &pool;
  if (store_) store_->use(pool);
}

void RunCollection::open() {
  if (!store_) store_.emplace(*pool_, for_store_);
}

std::vector<RunStoreDiskStatistics> RunCollection::disks() const {
  return store_ ? store_->statistics() : std::vector<RunStoreDiskStatistics>{};
}

std::uint64_t RunCollection::bytes() const noexcept { return bytes_of(runs_); }

void RunCollection::form(std::uint64_t most_bytes, const Writing& write) {
  add(plan_.run_write_behind, most_bytes, write);
  ++counts_.runs;
}

void RunCollection::count_merge_of_inputs(unsigned merges) noexcept {
  counts_.merges += merges;
  counts_.passes = 1;
}

void RunCollection::reduce_to(std::uint64_t most) {
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

std::uint64_t RunCollection::last_merge_order() const {
  if (runs_.size() < 2) return 1;
  const std::uint64_t largest = plan_.largest_merge_order();
  return largest < 2 ? 1 : std::min<std::uint64_t>(runs_.size(), largest);
}

void RunCollection::merge_all(RecordOutput& out, std::size_t read_buffers, RunningMerge* running) {
  ++counts_.merges;
  ++counts_.passes;
  merge(std::exchange(runs_, {}), out, read_buffers, true, running);
}

RecordOutput& RunCollection::begin(std::size_t write_behind, std::uint64_t most_bytes) {
  open();
  return writer_.emplace(order_, *store_, write_behind, most_bytes, watch_.stop());
}

void RunCollection::end() {
  Run run = writer_->finish();
  writer_.reset();
  counts_.bytes += run.bytes;
  runs_.push_back(std::move(run));
}

void RunCollection::add(std::size_t write_behind, std::uint64_t most_bytes, const Writing& write) {
  struct Unfinished {
    std::optional<RunWriter>& writer;
    ~Unfinished() { writer.reset(); }
  } const unfinished{writer_};
  write(begin(write_behind, most_bytes));
  end();
}

void RunCollection::merge(std::vector<Run> runs, RecordOutput& out, std::size_t read_buffers,
                          bool last, RunningMerge* running) {
  RunMergeOptions options;
  options.kind = plan_.request.prefetch;
  options.read_buffers = read_buffers;
  options.working_bytes = plan_.formation.scratch_bytes;  // free while runs are merged
  options.threads = plan_.request.threads;
  options.unique = unique_;
  options.punch_holes = last && store_->punching_pays();
  options.cancelled = &watch_.stopped();
  options.running = running;
  merge_runs(order_, *store_, std::move(runs), out, options);
}

// Merges the neighbours with the fewest bytes. The others stay as they are.
void RunCollection::merge_neighbours(const MergePass& pass) {
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
    add(buffers.run_write_behind, bytes_of(group), [&](RecordOutput& out) {
      WatchedOutput watched(out, watch_);
      merge(std::move(group), watched, buffers.read_buffers, false);
    });
    ++counts_.merges;
  }
  for (std::size_t i = end; i < before.size(); ++i) runs_.push_back(std::move(before[i]));
}

}  // namespace vortex::inline v0
