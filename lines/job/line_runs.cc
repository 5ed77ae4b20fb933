#include "lines/job/line_runs.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "lines/job/merge_tree.h"
#include "lines/runs/run_division.h"
#include "sort/job/output_parts.h"
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

// What a merge of a part of these has at most. Prefixes of records may take more bytes than in the
// runs, and keys are stored whole behind long ones, which are others there, and at marks.
std::uint64_t most_bytes_of(const std::vector<LineRun>& runs, const MergePart& part,
                            std::size_t block_bytes) noexcept {
  std::uint64_t bytes = 0;
  std::uint64_t shared = 0;
  std::uint64_t whole = 1;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunMark& begin = part.runs[i].begin;
    const RunMark& end = part.runs[i].end;
    bytes += end.offset - begin.offset + (end.records - begin.records) * kRunPrefixBytes;
    shared += runs[i].shared_bytes;
    whole += runs[i].long_keys;
  }
  whole += (bytes + shared) / block_bytes;
  return bytes + std::min(shared, whole * kMaxSharingKey);
}

std::uint64_t text_bytes_of(const std::vector<LineRun>& runs) noexcept {
  std::uint64_t bytes = 0;
  for (const LineRun& run : runs) bytes += run.end.text_bytes;
  return bytes;
}

void forget_forecasts(std::vector<LineRun>& runs) noexcept {
  for (LineRun& run : runs) run.forecasts = {};
}

}  // namespace

struct LineRuns::PartEnds {
  KeptRecord first;
  KeptRecord last;
};

RunMerge::RunMerge(std::shared_ptr<std::vector<LineRun>> runs, const MergePart& part,
                   const LinePrefetch& prefetch, const StoredOrder& order, bool punch_holes,
                   const std::stop_token& stop, RunningMerges* running)
    : counted_(part.counted), text_bytes_(part.text_bytes), runs_(std::move(runs)), order_(order) {
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
    if (part.runs[i].begin.records != part.runs[i].end.records) {
      not_empty_.push_back(cursors.back());
    }
  }
  merge_.emplace(cursors, order);
  running_.emplace(running, *prefetcher_,
                   lean_buffers(prefetch.options.held_blocks, prefetch.options.disks));
}

// Each cursor still stands at its last record.
StoredRecord RunMerge::last() const {
  const RunCursor* last = not_empty_.front();
  for (const RunCursor* const other : not_empty_) {
    if (difference(last->stored(), other->stored(), order_, 0).order < 0) last = other;
  }
  return last->stored();
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
  return finished(writers, end_of);
}

LineRun LineRuns::finished(const Writers& writers, const EndOfPart& end_of) {
  if (writers.size() == 1) return writers.front()->finish();
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
         beside.merges_at_once(size) == merges && buffers(beside) == buffers(plan_) &&
         branches_for(beside) == branches_for(plan_);
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

void LineRuns::reduce_to_one_merge(bool in_half, unsigned most_parts, detail::ThreadTeam* team) {
  packing_of_parts_.clear();
  const LineMergeSize all = size_of(runs());
  const std::uint64_t most = plan_.most_runs(all.longest, all.blocks);
  const std::uint64_t of_half = in_half ? plan_.most_runs(all.longest, all.blocks, 2) : most;
  const std::uint64_t left = plan_.runs_to_leave(all, of_half >= 2 ? of_half : most, most_parts);
  if (size() <= std::max<std::uint64_t>(left, 1)) return;
  if (most < 2) {
    throw Error(ENOMEM, "merging lines of up to " + format_bytes(all.longest) + " with " +
                            format_bytes(plan_.memory_bytes) +
                            " of memory: no two runs fit; raise it");
  }
  team_ = team;
  reduce(left, team_ != nullptr ? plan_.pass_order(all, left) : most);
}

// How many equal records are dropped is not known beforehand, and so not where the first ones end.
std::vector<MergePart> LineRuns::divided(const std::vector<LineRun>& group,
                                         const LineMergeSize& size) const {
  const std::uint64_t first = order_.unique ? 0 : plan_.first_records;
  const bool in_parts = team_ != nullptr && first == plan_.first_records;
  return divide_runs(group, order_, in_parts ? plan_.merges_at_once(size) : 1,
                     plan_.least_bytes_of_run_part(), first);
}

LineRuns::Writers LineRuns::writers_of(const std::vector<LineRun>& group,
                                       const std::vector<MergePart>& parts) {
  const auto count = static_cast<unsigned>(parts.size());
  Writers writers;
  for (std::size_t part = 0; part < count; ++part) {
    writers.push_back(std::make_unique<LineRunWriter>(
        store(), order_, count == 1 ? packing() : packing_of_part(part),
        plan_.write_behind_of_merge(count), plan_.forecast_bytes,
        most_bytes_of(group, parts[part], store().block_bytes()), watch().stop()));
  }
  return writers;
}

LineRun LineRuns::merged(std::vector<LineRun> runs) {
  auto group = std::make_shared<std::vector<LineRun>>(std::move(runs));
  LineMergeSize size = size_of(*group);
  size.goal = LineMergeSize::Goal::kRun;
  const std::vector<MergePart> parts = divided(*group, size);
  const Writers writers = writers_of(*group, parts);
  const LinePrefetch prefetch = plan_.prefetch_of(size, static_cast<unsigned>(parts.size()));
  const std::vector<PartEnds> ends = merge_to(writers, std::move(group), parts, prefetch);
  LineRun run = finished(writers, [&](std::size_t part) -> PartEnd {
    const StoredRecord last = ends[part].last.stored();
    return {last, difference(last, ends[part + 1].first.stored(), order_, 0).chunk};
  });
  count_bytes(run.run.stored_bytes());
  return run;
}

// Gives back what the group takes.
std::vector<LineRuns::PartEnds> LineRuns::merge_to(const Writers& writers, Group group,
                                                   const std::vector<MergePart>& parts,
                                                   const LinePrefetch& prefetch) {
  std::vector<std::unique_ptr<RunMerge>> merges;
  for (const MergePart& part : parts) {
    merges.push_back(
        std::make_unique<RunMerge>(group, part, prefetch, order_, false, watch().stop(), nullptr));
  }
  forget_forecasts(*std::exchange(group, nullptr));
  std::vector<PartEnds> ends(parts.size());
  const auto merge = [&](std::size_t part, Written told) {
    const std::uint64_t most = order_.unique ? plan_.first_records : parts[part].counted;
    merge_part(*merges[part], most, *writers[part], parts.size() > 1 ? &ends[part] : nullptr, told);
  };
  if (parts.size() > 1) {
    work_in_parts(parts.size(), *team_, watch(), merge);
  } else {
    merge(0, Written::kCounts);
  }
  return ends;
}

void LineRuns::merge_part(RunMerge& merge, std::uint64_t most, LineRunWriter& run, PartEnds* ends,
                          Written told) {
  guarded([&] { merge.start(); }).throw_if_failed();
  FirstOfCursor<RunMerge> wanted(merge, most);
  for_each_record(
      wanted,
      [&](const auto& at) {
        if (run.records() == 0 && ends != nullptr) [[unlikely]]
          ends->first.keep(at.stored(), order_.has_keys);
        run.append(at.stored(), at.in_common(), at.count());
      },
      [&](std::uint64_t bytes) {
        told == Written::kCounts ? watch().add(bytes) : watch().add_in_part(bytes);
      });
  if (ends == nullptr) return;
  guarded([&] { ends->last.keep(merge.last(), order_.has_keys); }).throw_if_failed();
}

std::vector<LineRun> LineRuns::take_for_merge() {
  packing_of_parts_.clear();
  std::vector<LineRun> runs = take_all();
  if (kept_) runs.push_back(*std::exchange(kept_, std::nullopt));
  return runs;
}

std::vector<std::unique_ptr<RunMerge>> LineRuns::merge_all(RunningMerges& running,
                                                           unsigned most_parts) {
  const auto runs = std::make_shared<std::vector<LineRun>>(take_for_merge());
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

unsigned LineRuns::branches_for(const LinePlan& plan) const {
  const LineMergeSize all = size_of(runs());
  const std::uint64_t longest = std::max(all.longest, kept_ ? kept_->longest : 0);
  const bool fit = MergeBranch::fits(longest, MergeTree::room_bytes(plan.block_bytes));
  return fit ? plan.branches_at_once(all, text_bytes_of(runs())) : 1;
}

// The run in memory is no run that takes buffers, and goes with the last ones.
std::vector<std::unique_ptr<RunMerge>> LineRuns::merge_branches(RunningMerges& running) {
  const unsigned count = branches_for(plan_);
  if (count < 2) return {};
  const LineMergeSize all = size_of(runs());
  std::vector<LineRun> runs = take_for_merge();
  std::vector<std::unique_ptr<RunMerge>> merges;
  for (unsigned i = 0; i < count; ++i) {
    LineMergeSize size = all;
    size.goal = LineMergeSize::Goal::kBranch;
    const auto begin = runs.begin() + static_cast<std::ptrdiff_t>(all.runs * i / count);
    const auto end = i + 1 == count
                         ? runs.end()
                         : runs.begin() + static_cast<std::ptrdiff_t>(all.runs * (i + 1) / count);
    const auto group =
        std::make_shared<std::vector<LineRun>>(std::move_iterator(begin), std::move_iterator(end));
    size.runs = size_of(*group).runs;
    merges.push_back(std::make_unique<RunMerge>(
        group, whole_merge(*group), plan_.prefetch_of(size, count), order_,
        group->front().run.store->punching_pays(), watch().stop(), &running));
    forget_forecasts(*group);
  }
  return merges;
}

}}  // namespace vortex::v0
