#include "sort/job/run_collection.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

#include "sort/merge/run_merge.h"
#include "sort/runs/run_writer.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

std::uint64_t total_bytes(std::span<const Run> runs) noexcept {
  std::uint64_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return bytes;
}

}  // namespace

RunCollection::RunCollection(const RecordOrder& order, const SortPlan& plan, BlockPool& pool,
                             SortWatch& watch, RunStoreOptions for_store, bool unique)
    : RunSet(pool, watch, std::move(for_store),
             {plan.compression, plan.block_bytes, order.record_bytes()}),
      order_(order),
      plan_(plan),
      unique_(unique) {}

void RunCollection::form(std::uint64_t most_bytes, const Writing& write) {
  insert(runs_.size(), plan_.run_write_behind, most_bytes, write);
  count_run();
}

void RunCollection::reduce_to(std::uint64_t most) {
  if (runs_.size() <= most) return;
  const std::uint64_t largest = plan_.largest_merge_order();
  if (largest < 2) {
    throw Error(ENOMEM, "merging with " + format_bytes(plan_.request.memory_bytes) +
                            " of memory: no two runs fit; raise it");
  }
  reduce(most, largest);
}

std::uint64_t RunCollection::last_merge_order() const {
  if (runs_.size() < 2) return 1;
  const std::uint64_t largest = plan_.largest_merge_order();
  return largest < 2 ? 1 : std::min<std::uint64_t>(runs_.size(), largest);
}

void RunCollection::merge_all(RecordOutput& out, std::size_t read_buffers, RunningMerge* running) {
  count_last_merge();
  merge(std::exchange(runs_, {}), out, read_buffers, true, running);
}

RecordOutput& RunCollection::begin(std::size_t write_behind, std::uint64_t most_bytes) {
  open();
  return writer_.emplace(order_, store(), write_behind, most_bytes, &packing(), watch().stop());
}

void RunCollection::end() { runs_.push_back(finish_run()); }

Run RunCollection::finish_run() {
  Run run = writer_->finish();
  writer_.reset();
  count_bytes(run.stored_bytes());
  return run;
}

void RunCollection::insert(std::size_t place, std::size_t write_behind, std::uint64_t most_bytes,
                           const Writing& write) {
  struct Unfinished {
    std::optional<RunWriter>& writer;
    ~Unfinished() { writer.reset(); }
  } const unfinished{writer_};
  write(begin(write_behind, most_bytes));
  runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(place), finish_run());
}

void RunCollection::merge(std::vector<Run> runs, RecordOutput& out, std::size_t read_buffers,
                          bool last, RunningMerge* running) {
  RunMergeOptions options;
  options.kind = plan_.request.prefetch;
  options.read_buffers = read_buffers;
  options.working_bytes = plan_.formation.scratch_bytes;  // free while runs are merged
  options.threads = plan_.request.threads;
  options.unique = unique_;
  options.punch_holes = last && store().punching_pays();
  options.cancelled = &watch().stopped();
  options.running = running;
  merge_runs(order_, store(), std::move(runs), out, options);
}

void RunCollection::merge_to_one(std::size_t first, std::size_t count) {
  const auto begin = runs_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  std::vector<Run> group(std::make_move_iterator(begin), std::make_move_iterator(end));
  runs_.erase(begin, end);
  const MergeBuffers buffers = plan_.merge_buffers(count);
  insert(first, buffers.run_write_behind, total_bytes(group), [&](RecordOutput& out) {
    WatchedOutput watched(out, watch());
    merge(std::move(group), watched, buffers.read_buffers, false);
  });
}

}}  // namespace vortex::v0
