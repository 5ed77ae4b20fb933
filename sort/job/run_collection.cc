#include "sort/job/run_collection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sort/job/output_parts.h"
#include "sort/merge/record_division.h"
#include "sort/runs/block_packer.h"
#include "sort/runs/run_writer.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/error.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

RunCollection::RunCollection(const RecordOrder& order, const RecordPlan& plan, BlockPool& pool,
                             SortWatch& watch, RunStoreOptions for_store, bool unique,
                             Askers* askers)
    : RunList(pool, watch, std::move(for_store),
              {plan.compression, plan.block_bytes, order.record_bytes()}),
      order_(order),
      plan_(plan),
      unique_(unique),
      askers_(askers) {}

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
  reduce(most, plan_.pass_order(size(), most));
  packing_of_parts_.clear();
  team_.reset();
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

// Of one of several merges that go on side by side, until the last one.
RunMergeOptions RunCollection::merge_options(std::size_t read_buffers, unsigned merges) {
  RunMergeOptions options;
  options.kind = plan_.prefetch;
  options.read_buffers = read_buffers;
  // The scratch is free while runs are merged; for one merge an unpacker is planned.
  const std::size_t unpacker =
      merges == 1 || !packing().may_pack() ? 0 : BlockPacker::memory_bytes(plan_.block_bytes);
  options.working_bytes = plan_.formation.scratch_bytes / merges;
  options.working_bytes -= std::min(options.working_bytes, unpacker);
  options.threads = plan_.threads / merges;
  options.unique = unique_;
  options.most_records = plan_.first_records;
  options.cancelled = &watch().stopped();
  options.askers = askers_;
  return options;
}

void RunCollection::merge_all(RecordOutput& out, std::size_t read_buffers, RunningMerges* running,
                              const MergeInput& in_memory) {
  RunMergeOptions options = merge_options(read_buffers);
  options.punch_holes = store().punching_pays();
  options.running = running;
  options.in_memory = in_memory;
  merge_runs(order_, store(), take_all(), out, options);
}

std::vector<std::unique_ptr<PartMerge>> RunCollection::merge_parts(unsigned most_parts,
                                                                   RunningMerges* running,
                                                                   const MergeInput& in_memory) {
  const auto runs = std::make_shared<std::vector<Run>>(take_all());
  // How many equal records are dropped is not known beforehand, and so not where a part begins.
  const unsigned parts = unique_ ? 1 : std::min(most_parts, plan_.merges_at_once(runs->size()));
  const std::vector<RecordPart> divided =
      divide_runs(order_, *runs, in_memory, parts, plan_.least_part_records(),
                  unique_ ? 0 : plan_.first_records);
  const auto merges = static_cast<unsigned>(divided.size());
  RunMergeOptions options =
      merge_options(plan_.merge_buffers(runs->size(), merges).read_buffers, merges);
  options.punch_holes = store().punching_pays();
  options.running = running;
  std::vector<std::unique_ptr<PartMerge>> result;
  for (const RecordPart& part : divided) {
    result.push_back(std::make_unique<PartMerge>(order_, store(), runs, part, options));
  }
  for (Run& run : *runs) run.forecast_keys = {};
  return result;
}

RecordOutput& RunCollection::begin(std::size_t write_behind, std::uint64_t most_bytes,
                                   std::uint64_t expected_bytes, std::size_t wide) {
  open();
  return writer_.emplace(order_, store(), write_behind, most_bytes, &packing(), watch().stop(),
                         expected_bytes, wide);
}

RecordOutput& RunCollection::begin_falling(std::size_t write_behind, std::uint64_t most_bytes,
                                           std::uint64_t whole_bytes, std::uint64_t expected_bytes,
                                           std::size_t wide) {
  open();
  // Blocks that are packed are of no use in a file, nor is a run that may not have all records.
  const bool may_be_whole = empty() && whole_bytes <= most_bytes && !packing().may_pack_next();
  return falling_.emplace(order_, store(), write_behind, most_bytes, may_be_whole ? whole_bytes : 0,
                          &packing(), watch().stop(), expected_bytes, wide);
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

// Each part learns by itself whether packing pays.
RunPacking& RunCollection::packing_of_part(std::size_t part) {
  while (packing_of_parts_.size() <= part) {
    packing_of_parts_.push_back(
        std::make_unique<RunPacking>(plan_.compression, plan_.block_bytes, order_.record_bytes()));
  }
  return *packing_of_parts_[part];
}

RunCollection::PartWriters RunCollection::writers_of(std::span<const RecordPart> parts,
                                                     std::size_t write_behind) {
  PartWriters writers;
  std::uint64_t begin = 0;
  for (const RecordPart& part : parts) {
    const std::uint64_t end = begin + part.records * order_.record_bytes();
    writers.push_back(std::make_unique<RunPartWriter>(order_, store(), write_behind, begin, end,
                                                      &packing_of_part(writers.size()),
                                                      watch().stop()));
    begin = end;
  }
  return writers;
}

// Threads merge a part each. What one ends with comes before what the next begins with, or the runs
// were not cut by the records that were merged.
Run RunCollection::merged_in_parts(const std::shared_ptr<std::vector<Run>>& runs,
                                   std::span<const RecordPart> parts) {
  const auto count = static_cast<unsigned>(parts.size());
  const MergeBuffers buffers = plan_.merge_buffers(runs->size(), count);
  const PartWriters writers = writers_of(parts, buffers.run_write_behind);
  RunMergeOptions options = merge_options(buffers.read_buffers, count);
  const std::size_t packer =
      packing().may_pack() ? BlockPacker::memory_bytes(plan_.block_bytes) : 0;
  options.working_bytes -= std::min(options.working_bytes, packer);
  std::vector<std::unique_ptr<PartMerge>> merges;
  for (const RecordPart& part : parts) {
    merges.push_back(std::make_unique<PartMerge>(order_, store(), runs, part, options));
  }
  for (Run& run : *runs) run.forecast_keys = {};
  std::vector<std::unique_ptr<NotedEnds>> ends(count);
  if (!team_ || team_->threads() < count) work_for_log(team_.emplace(count));
  work_in_parts(count, *team_, watch(), [&](std::size_t part, Written told) {
    ends[part] = std::make_unique<NotedEnds>(*writers[part], order_.record_bytes());
    WatchedOutput watched(*ends[part], watch(), told);
    if (merges[part]->merge_to(watched) != parts[part].records) OutputParts::refuse();
    watched.tell_rest();
  });
  for (std::size_t i = 1; i < count; ++i) {
    if (order_.less(ends[i]->first(), ends[i - 1]->last())) OutputParts::refuse();
  }
  Run run = run_of_parts(writers);
  count_bytes(std::min(run.stored_bytes(), bytes_of(run)));
  return run;
}

Run RunCollection::merged(std::vector<Run> runs) {
  if (const unsigned most_parts = plan_.run_parts(runs.size()); most_parts > 1) {
    const auto group = std::make_shared<std::vector<Run>>(std::move(runs));
    const std::vector<RecordPart> parts = divide_runs(
        order_, *group, {}, most_parts, plan_.least_part_records(), plan_.first_records);
    if (parts.size() > 1) return merged_in_parts(group, parts);
    runs = std::move(*group);
  }
  const MergeBuffers buffers = plan_.merge_buffers(runs.size());
  std::uint64_t bytes = 0;
  for (const Run& run : runs) bytes += run.bytes;
  return write_run(buffers.run_write_behind, bytes, [&](RecordOutput& out) {
    WatchedOutput watched(out, watch());
    merge_runs(order_, store(), std::move(runs), watched, merge_options(buffers.read_buffers));
  });
}

}}  // namespace vortex::v0
