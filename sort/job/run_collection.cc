#include "sort/job/run_collection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sort/merge/run_merge.h"
#include "sort/runs/run_writer.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

RunCollection::RunCollection(const RecordOrder& order, const RecordPlan& plan, BlockPool& pool,
                             SortWatch& watch, RunStoreOptions for_store, bool unique)
    : RunList(pool, watch, std::move(for_store),
              {plan.compression, plan.block_bytes, order.record_bytes()}),
      order_(order),
      plan_(plan),
      unique_(unique) {}

void RunCollection::form(std::uint64_t most_bytes, const Writing& write) {
  add(write_run(plan_.run_write_behind, most_bytes, write));
  count_run();
}

void RunCollection::reduce_to(std::uint64_t most) {
  if (size() <= most) return;
  const std::uint64_t largest = plan_.largest_merge_order();
  if (largest < 2) {
    throw Error(ENOMEM, "merging with " + format_bytes(plan_.memory_bytes) +
                            " of memory: no two runs fit; raise it");
  }
  reduce(most, largest);
}

std::uint64_t RunCollection::last_merge_order() const {
  if (size() < 2) return 1;
  const std::uint64_t largest = plan_.largest_merge_order();
  return largest < 2 ? 1 : std::min<std::uint64_t>(size(), largest);
}

BlockFile RunCollection::take_file() {
  const Run run = take_only();
  uncount_bytes(run.stored_bytes());
  return store().take_file(0);
}

void RunCollection::merge_all(RecordOutput& out, std::size_t read_buffers, RunningMerges* running,
                              const MergeInput& in_memory) {
  merge(take_all(), out, read_buffers, true, running, in_memory);
}

RecordOutput& RunCollection::begin(std::size_t write_behind, std::uint64_t most_bytes,
                                   std::uint64_t expected_bytes) {
  open();
  return writer_.emplace(order_, store(), write_behind, most_bytes, &packing(), watch().stop(),
                         expected_bytes);
}

RecordOutput& RunCollection::begin_falling(std::size_t write_behind, std::uint64_t most_bytes,
                                           std::uint64_t whole_bytes,
                                           std::uint64_t expected_bytes) {
  open();
  // Blocks that are packed are of no use in a file, nor is a run that may not have all records.
  const bool may_be_whole = empty() && whole_bytes <= most_bytes && !packing().may_pack_next();
  return falling_.emplace(order_, store(), write_behind, most_bytes, may_be_whole ? whole_bytes : 0,
                          &packing(), watch().stop(), expected_bytes);
}

void RunCollection::end() {
  end_spilled();
  count_run();
}

void RunCollection::end_spilled() { add(finish_run()); }

Run RunCollection::finish_run() {
  Run run = falling_ ? falling_->finish() : writer_->finish();
  writer_.reset();
  falling_.reset();
  count_bytes(std::min(run.stored_bytes(), bytes_of(run)));
  return run;
}

Run RunCollection::write_run(std::size_t write_behind, std::uint64_t most_bytes,
                             const Writing& write) {
  struct Unfinished {
    std::optional<RunWriter>& writer;
    ~Unfinished() { writer.reset(); }
  } const unfinished{writer_};
  write(begin(write_behind, most_bytes));
  return finish_run();
}

void RunCollection::merge(std::vector<Run> runs, RecordOutput& out, std::size_t read_buffers,
                          bool last, RunningMerges* running, const MergeInput& in_memory) {
  RunMergeOptions options;
  options.kind = plan_.prefetch;
  options.read_buffers = read_buffers;
  options.working_bytes = plan_.formation.scratch_bytes;  // free while runs are merged
  options.threads = plan_.threads;
  options.unique = unique_;
  options.most_records = plan_.first_records;
  options.punch_holes = last && store().punching_pays();
  options.cancelled = &watch().stopped();
  options.running = running;
  options.in_memory = in_memory;
  merge_runs(order_, store(), std::move(runs), out, options);
}

Run RunCollection::merged(std::vector<Run> runs) {
  const MergeBuffers buffers = plan_.merge_buffers(runs.size());
  std::uint64_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return write_run(buffers.run_write_behind, bytes, [&](RecordOutput& out) {
    WatchedOutput watched(out, watch());
    merge(std::move(runs), watched, buffers.read_buffers, false);
  });
}

}}  // namespace vortex::v0
