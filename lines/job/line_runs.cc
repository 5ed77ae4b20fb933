#include "lines/job/line_runs.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "lines/runs/run_division.h"
#include "sort/merge/prefetch_policy.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kLeastInHugePages = 32 * kHugePageBytes;  // of a part

// What those on the disks take.
LineMergeSize size_of(const std::vector<LineRun>& runs) noexcept {
  LineMergeSize size;
  for (const LineRun& run : runs) {
    if (run.kept) continue;
    ++size.runs;
    size.longest = std::max(size.longest, run.longest);
    size.blocks += run.run.blocks();
  }
  return size;
}

// What a merge of these has at most. Prefixes of records may take more bytes than in the runs, and
// keys are stored whole behind long ones, which are others there, and at marks.
std::uint64_t most_bytes_of(const std::vector<LineRun>& runs, std::size_t block_bytes) noexcept {
  std::uint64_t bytes = 0;
  std::uint64_t shared = 0;
  std::uint64_t whole = 1;
  for (const LineRun& run : runs) {
    bytes += run.run.bytes + run.end.records * kRunPrefixBytes;
    shared += run.shared_bytes;
    whole += run.long_keys;
  }
  whole += (bytes + shared) / block_bytes;
  return bytes + std::min(shared, whole * kMaxSharingKey);
}

void forget_forecasts(std::vector<LineRun>& runs) noexcept {
  for (LineRun& run : runs) run.forecasts = {};
}

}  // namespace

RunMerge::RunMerge(std::shared_ptr<std::vector<LineRun>> runs, const MergePart& part,
                   const LinePrefetch& prefetch, const StoredOrder& order, bool punch_holes,
                   const std::stop_token& stop, RunningMerges* running)
    : counted_(part.counted), text_bytes_(part.text_bytes), runs_(std::move(runs)) {
  RunStore& store = *runs_->front().run.store;
  const auto count = static_cast<std::uint32_t>(runs_->size());
  const auto kept = std::ranges::count_if(*runs_, [](const LineRun& run) { return !!run.kept; });
  prefetcher_.emplace(
      store, slices_of(*runs_, part),
      make_prefetch_policy(prefetch.kind, order_of_need(*runs_, part, order), prefetch.options,
                           count - static_cast<std::uint32_t>(kept), store.block_times()),
      punch_holes);
  std::vector<RunCursor*> cursors;
  for (std::uint32_t i = 0; i < count; ++i) {
    cursors_.push_back(
        std::make_unique<RunCursor>(*prefetcher_, i, part.runs[i], (*runs_)[i], order, stop));
    cursors.push_back(cursors_.back().get());
  }
  merge_.emplace(cursors, order);
  running_.emplace(running, *prefetcher_,
                   lean_buffers(prefetch.options.held_blocks, prefetch.options.disks));
}

LineRuns::LineRuns(const StoredOrder& order, const LinePlan& plan, BlockPool& pool,
                   SortWatch& watch, RunStoreOptions for_store)
    : RunList(pool, watch, std::move(for_store), {plan.compression, plan.block_bytes}),
      order_(order),
      plan_(plan) {}

void LineRuns::form(std::uint64_t most_bytes,
                    const std::function<void(LineRunWriter& run)>& write) {
  open_run(most_bytes);
  try {
    write(*open_);
    end_open();
  } catch (...) {
    open_.reset();
    throw;
  }
}

void LineRuns::open_run(std::uint64_t most_bytes) {
  open();
  begin_run(open_, most_bytes);
}

void LineRuns::end_part(const StoredRecord& last, std::uint64_t in_common) {
  LineRun part =
      parts_.empty() ? open_->finish() : open_->finish_before(parts_.back(), last, in_common);
  open_.reset();
  count_bytes(part.run.stored_bytes());
  parts_.push_back(std::move(part));
}

// Each part learns by itself whether packing pays.
RunPacking& LineRuns::packing_of_part(std::size_t part) {
  while (packing_of_parts_.size() <= part) {
    packing_of_parts_.push_back(std::make_unique<RunPacking>(plan_.compression, plan_.block_bytes));
  }
  return *packing_of_parts_[part];
}

LineRun LineRuns::written_in_parts(const Writers& writers, detail::ThreadTeam& team,
                                   const WritePart& write, const EndOfPart& end_of) {
  team.run(writers.size(), [&](std::size_t part) { write(part, *writers[part]); });
  std::vector<LineRun> written;
  written.push_back(writers.back()->finish());
  for (std::size_t part = writers.size() - 1; part-- > 0;) {
    const PartEnd end = end_of(part);
    written.push_back(writers[part]->finish_before(written.back(), end.last, end.in_common));
  }
  std::reverse(written.begin(), written.end());
  return joined(std::move(written));
}

void LineRuns::form_in_parts(std::size_t parts, std::uint64_t most_bytes, detail::ThreadTeam& team,
                             const WritePart& write, const EndOfPart& end_of) {
  open();
  Writers writers;
  for (std::size_t part = 0; part < parts; ++part) {
    writers.push_back(std::make_unique<LineRunWriter>(
        store(), order_, packing_of_part(part), plan_.write_behind_of_part(parts),
        plan_.forecast_bytes, most_bytes, watch().stop()));
  }
  LineRun run = written_in_parts(writers, team, write, end_of);
  count_bytes(run.run.stored_bytes());
  add(std::move(run));
  count_run();
}

bool LineRuns::may_keep(std::uint64_t bytes) const {
  const LineMergeSize size = size_of(runs());
  LinePlan beside = plan_;
  beside.kept_bytes = bytes;
  const unsigned merges = plan_.merges_at_once(size);
  const auto buffers = [&](const LinePlan& plan) {
    return plan.prefetch_of(size, merges).options.buffers;
  };
  return size.runs > 0 && size.runs <= beside.most_runs(size.longest, size.blocks) &&
         beside.merges_at_once(size) == merges && buffers(beside) == buffers(plan_);
}

std::uint64_t LineRuns::keep_in_parts(std::size_t parts, std::uint64_t most_bytes,
                                      detail::ThreadTeam& team, const WritePart& write,
                                      const EndOfPart& end_of) {
  // Each part has address space for all of them.
  const bool is_large = most_bytes / parts >= kLeastInHugePages;
  const std::uint64_t page = is_large ? kHugePageBytes : os::page_bytes();
  const auto each = static_cast<std::size_t>(detail::units_for(most_bytes, page) * page);
  std::shared_ptr<RawMemory> memory;
  try {
    memory =
        std::make_shared<RawMemory>(parts * each, is_large ? PageKind::kHuge : PageKind::kSmall);
  } catch (const Error&) {
    return 0;
  }
  Writers writers;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::span<char> room(memory->data() + part * each, each);
    writers.push_back(std::make_unique<LineRunWriter>(store(), order_, room));
  }
  std::uint64_t bytes = 0;
  kept_ = written_in_parts(writers, team, write, end_of);
  // Huge pages may begin anywhere in them.
  for (const auto& writer : writers) bytes += (detail::units_for(writer->bytes(), page) + 1) * page;
  kept_->kept = memory;
  return bytes;
}

void LineRuns::end_open() {
  if (open_) {
    add(finish(*open_));
    open_.reset();
  } else {
    std::reverse(parts_.begin(), parts_.end());
    add(joined(std::exchange(parts_, {})));
  }
  count_run();
}

void LineRuns::begin_run(std::optional<LineRunWriter>& run, std::uint64_t most_bytes) {
  run.emplace(store(), order_, packing(), plan_.run_write_behind, plan_.forecast_bytes, most_bytes,
              watch().stop());
}

LineRun LineRuns::finish(LineRunWriter& writer) {
  LineRun run = writer.finish();
  count_bytes(run.run.stored_bytes());
  return run;
}

void LineRuns::reduce_to_one_merge(bool in_half) {
  packing_of_parts_.clear();
  const LineMergeSize all = size_of(runs());
  const std::uint64_t most = plan_.most_runs(all.longest, all.blocks);
  const std::uint64_t of_half = in_half ? plan_.most_runs(all.longest, all.blocks, 2) : most;
  const std::uint64_t left = of_half >= 2 ? of_half : most;
  if (size() <= std::max<std::uint64_t>(left, 1)) return;
  if (most < 2) {
    throw Error(ENOMEM, "merging lines of up to " + format_bytes(all.longest) + " with " +
                            format_bytes(plan_.memory_bytes) +
                            " of memory: no two runs fit; raise it");
  }
  reduce(left, most);
}

LineRun LineRuns::merged(std::vector<LineRun> runs) {
  auto group = std::make_shared<std::vector<LineRun>>(std::move(runs));
  std::optional<LineRunWriter> writer;
  begin_run(writer, most_bytes_of(*group, store().block_bytes()));
  {
    RunMerge merge(group, whole_merge(*group), plan_.prefetch_of(size_of(*group)), order_, false,
                   watch().stop(), nullptr);
    forget_forecasts(*std::exchange(group, nullptr));
    guarded([&] { merge.start(); }).throw_if_failed();
    FirstOfCursor<RunMerge> wanted(merge, plan_.first_records);
    for_each_record(
        wanted, [&](const auto& at) { writer->append(at.stored(), at.in_common(), at.count()); },
        [&](std::uint64_t bytes) { watch().add(bytes); });
  }
  return finish(*writer);
}

std::vector<std::unique_ptr<RunMerge>> LineRuns::merge_all(RunningMerges& running,
                                                           unsigned most_parts) {
  packing_of_parts_.clear();
  const auto runs = std::make_shared<std::vector<LineRun>>(take_all());
  if (kept_) runs->push_back(*std::exchange(kept_, std::nullopt));
  const LineMergeSize size = size_of(*runs);
  const std::vector<MergePart> parts = divide_runs(
      *runs, order_, std::min(most_parts, plan_.merges_at_once(size)), plan_.least_part_bytes());
  const LinePrefetch prefetch = plan_.prefetch_of(size, static_cast<unsigned>(parts.size()));
  const bool punch_holes = runs->front().run.store->punching_pays();
  std::vector<std::unique_ptr<RunMerge>> merges;
  for (const MergePart& part : parts) {
    merges.push_back(std::make_unique<RunMerge>(runs, part, prefetch, order_, punch_holes,
                                                watch().stop(), &running));
  }
  forget_forecasts(*runs);
  return merges;
}

}}  // namespace vortex::v0
