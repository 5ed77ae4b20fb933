// How merges of lines divide the memory.
#include <algorithm>
#include <cerrno>

#include "lines/job/line_plan.h"
#include "lines/job/merge_tree.h"
#include "lines/record/record_keys.h"
#include "lines/runs/line_run.h"
#include "lines/runs/run_division.h"
#include "lines/text/input_text.h"
#include "sort/merge/merge_passes.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/memory_limits.h"
#include "sort/runs/block_packer.h"
#include "vortex/detail/merge/merge_frontier.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

using Goal = LineMergeSize::Goal;

// Blocks that a merge reads ahead: two of each disk and kLeastAhead at least, or it would wait; and
// no more than the others of each run and each disk, for blocks that are used for the first time
// take time.
constexpr std::size_t kLeastAhead = 4;
constexpr std::size_t kMostAheadOfRun = 4;
constexpr std::size_t kMostAheadOfDisk = 16;
// What a merge keeps of each block of its runs: its place in the order of need and in the order of
// fetching, its buffer, and what it takes to find them.
constexpr std::uint64_t kBytesOfMergedBlock = 64;
// The keys of short records of an input that is merged, and copies of the one before; where it has
// little text, this many times as much, and what keeps them.
constexpr std::uint64_t kShortBytesOfInput = 12 * kLongRecord;
constexpr std::uint64_t kShortTimesText = 16;
constexpr std::uint64_t kLeastBytesOfInput = std::uint64_t{4} << 10;
// An input that is merged gets a buffer of this many bytes: less takes more calls than it saves
// merges, and more saves nothing.
constexpr std::uint64_t kLeastBuffer = std::uint64_t{16} << 10;
constexpr std::uint64_t kMostBuffer = std::uint64_t{256} << 10;

// Merges of fewer runs at a time take so much more at most, that more threads have a part of each.
constexpr std::uint64_t kMoreMerged = 4;
// What is merged once more counts so many times: it is written and read besides, and one thread may
// be all that merges it.
constexpr double kTimesMergedAgain = 2;
// Runs that have been merged may have so much more blocks than before: parts of them end within
// one, and records share less with the one before.
constexpr std::uint64_t kMoreBlocks = 16;

// A part of a run keeps its first record, and its last, in the memory of a block each.
bool can_divide(const LinePlan& plan, const LineMergeSize& size) {
  return size.goal != Goal::kRun || size.longest <= plan.block_bytes;
}

MergeReading reading_of(const LinePlan& plan, PrefetchKind kind, std::uint64_t longest) {
  return {kind, plan.disks, RunCursor::window_blocks(longest, plan.block_bytes)};
}

std::size_t least_ahead(const LinePlan& plan) {
  return std::max<std::size_t>(2 * std::size_t{plan.disks}, kLeastAhead);
}

// Stripes are read of blocks that the merge has left, so it must not hold more of a run than one.
MergeReading reading_of(const LinePlan& plan, std::uint64_t longest) {
  MergeReading reading = reading_of(plan, plan.prefetch, longest);
  if (reading.kind == PrefetchKind::kStriped &&
      reading.window_blocks > std::size_t{plan.disks} + 1) {
    reading.kind = PrefetchKind::kOptimal;
  }
  return reading;
}

}  // namespace

// One may write a run, which is written further behind than parts of the output, which have a head,
// and than parts of a run, which keep their first record and their last.
std::size_t LinePlan::blocks_to_write(const LineMergeSize& size, unsigned merges) const {
  constexpr std::size_t kHead = 1;
  constexpr std::size_t kEnds = 2;
  if (size.goal == Goal::kBranch) return MergeTree::blocks_of_branch(block_bytes);
  if (merges == 1) return writing_blocks();
  return size.goal == Goal::kRun
             ? LineRunWriter::blocks_needed(write_behind_of_merge(merges)) + kEnds
             : FileWriterBase::blocks_needed(writer, block_bytes) + kHead;
}

// Each part of a run has one beside that of its merge. One of each thread is planned for.
std::uint64_t LinePlan::bytes_of_packers(const LineMergeSize& size, unsigned merges) const {
  if (size.goal != Goal::kRun || merges == 1 || compression == RunCompression::kNever) return 0;
  const unsigned packers = 2 * merges;
  return (packers - std::min(packers, threads)) * BlockPacker::memory_bytes(block_bytes);
}

// What they have together. Branches have one writer.
std::uint64_t LinePlan::blocks_of_all(const LineMergeSize& size, unsigned merges) const {
  const std::uint64_t bytes =
      size.blocks * kBytesOfMergedBlock + kept_bytes + bytes_of_packers(size, merges);
  return detail::units_for(bytes, block_bytes) +
         (size.goal == Goal::kBranch ? writing_blocks() : 0);
}

// What each of `merges` has for reading: what they keep of the blocks, and a run in memory, is not
// used for blocks.
std::size_t LinePlan::reading_blocks(const LineMergeSize& size, unsigned merges) const {
  const std::size_t writing = blocks_to_write(size, merges);
  const std::uint64_t kept = blocks_of_all(size, merges);
  const std::uint64_t each = (pool_blocks - std::min<std::uint64_t>(pool_blocks, kept)) / merges;
  return static_cast<std::size_t>(each - std::min<std::uint64_t>(each, writing));
}

// Runs that such merges can take and read ahead.
std::uint64_t LinePlan::runs_at_ease(const LineMergeSize& size, unsigned merges) const {
  return reading_of(*this, size.longest)
      .most_runs(reading_blocks(size, merges), least_ahead(*this));
}

std::uint64_t LinePlan::most_runs(std::uint64_t longest, std::uint64_t blocks,
                                  unsigned parts) const {
  const LineMergeSize size{.longest = longest, .blocks = blocks};
  const std::uint64_t runs = runs_at_ease(size, parts);
  if (runs >= 2) return runs;
  // Two, if they can be merged at all.
  const MergeReading least = reading_of(*this, PrefetchKind::kOptimal, longest);
  return least.least_buffers(2, 1) <= reading_blocks(size, parts) ? 2 : runs;
}

LinePrefetch LinePlan::prefetch_of(const LineMergeSize& size, unsigned merges) const {
  MergeReading reading = reading_of(*this, size.longest);
  const std::size_t buffers = reading_blocks(size, merges);
  if (reading.least_buffers(size.runs, 1) > buffers) reading.kind = PrefetchKind::kOptimal;
  LinePrefetch prefetch{reading.kind, reading.options(size.runs)};
  const std::size_t ahead = std::max<std::size_t>(
      kMostAheadOfRun * static_cast<std::size_t>(size.runs), kMostAheadOfDisk * disks);
  prefetch.options.buffers = std::max(reading.least_buffers(size.runs, 1),
                                      std::min(buffers, prefetch.options.held_blocks + ahead));
  return prefetch;
}

unsigned LinePlan::merges_at_once(const LineMergeSize& size) const {
  if (!can_divide(*this, size)) return 1;
  const std::size_t least =
      reading_of(*this, size.longest).least_buffers(size.runs, least_ahead(*this));
  return detail::threads_that_fit(
      threads, [&](unsigned merges) { return least <= reading_blocks(size, merges); });
}

// Each has about as many of the runs, and reads ahead what one merge of all would at least. Threads
// whose stacks count have a plan of their own.
unsigned LinePlan::branches_at_once(const LineMergeSize& all, std::uint64_t text_bytes) const {
  if (stack_bytes_of_thread() != 0) return 1;
  const auto most = static_cast<unsigned>(std::min<std::uint64_t>(
      {MergeTree::kMostBranches, threads - 1, all.runs / 2, text_bytes / least_part_bytes()}));
  return detail::threads_that_fit(most, [&](unsigned some) {
    LineMergeSize size = all;
    size.goal = Goal::kBranch;
    size.runs = detail::units_for(all.runs, some);
    return reading_of(*this, size.longest).least_buffers(size.runs, least_ahead(*this)) <=
           reading_blocks(size, some);
  });
}

std::uint64_t LinePlan::pass_order(const LineMergeSize& all, std::uint64_t left) const {
  const std::uint64_t largest = most_runs(all.longest, all.blocks);
  LineMergeSize size = all;
  size.goal = Goal::kRun;
  if (largest < 2 || !can_divide(*this, size)) return largest;
  const MergeCost least = cost_of_passes(all.runs, left, largest);
  const unsigned merges = detail::threads_that_fit(threads, [&](unsigned some) {
    const std::uint64_t order = runs_at_ease(size, some);
    if (order < 2) return false;
    const MergeCost cost = cost_of_passes(all.runs, left, order);
    return cost.passes == least.passes && cost.merged <= least.merged + least.merged / kMoreMerged;
  });
  return merges == 1 ? largest : runs_at_ease(size, merges);
}

// The same of what is left of such runs when some have been merged.
std::uint64_t LinePlan::runs_at_ease_later(LineMergeSize size, unsigned merges) const {
  const std::uint64_t now = runs_at_ease(size, merges);
  size.blocks += size.blocks / kMoreBlocks + threads;
  return now >= size.runs ? now : runs_at_ease(size, merges);
}

// Time is counted in runs that one thread merges. Where requests are expensive the disk is slower
// than that.
std::uint64_t LinePlan::runs_to_leave(const LineMergeSize& all, std::uint64_t most,
                                      unsigned parts) const {
  const std::uint64_t largest = most_runs(all.longest, all.blocks);
  if (largest < 2 || all.longest > kMaxDividedRecord || request_cost_bytes >= kExpensiveRequest) {
    return most;
  }
  const auto time = [&](std::uint64_t left, unsigned merges) {
    return kTimesMergedAgain * static_cast<double>(cost_of_passes(all.runs, left, largest).merged) +
           static_cast<double>(all.runs) / merges;
  };
  std::uint64_t best = most;
  double least = time(most, 1);
  for (unsigned merges = 2; merges <= std::min(parts, threads); ++merges) {
    const std::uint64_t left = std::min(most, runs_at_ease_later(all, merges));
    if (left < 2) break;
    const double taken = time(left, merges);
    if (taken >= least) continue;
    best = left;
    least = taken;
  }
  return best;
}

// Half of the memory is for records that cross the borders of blocks, for keys, and for copies.
std::size_t LinePlan::blocks_for_inputs(unsigned merges) const {
  const std::size_t writing = blocks_to_write({}, merges);
  const std::size_t half = pool_blocks / 2 / merges;
  return half - std::min(half, writing);
}

// Where there is one merge, what short records take lies in the other half.
std::uint64_t LinePlan::most_inputs(unsigned merges) const {
  const std::uint64_t in_blocks =
      FileSource::blocks_needed(merged_reader, block_bytes) * block_bytes;
  return bytes_for_inputs(merges) / (in_blocks + (merges > 1 ? kShortBytesOfInput : 0));
}

void LinePlan::expect_two_of(std::uint64_t inputs) const {
  if (inputs < 2 || most_inputs() >= 2) return;
  throw Error(ENOMEM, "merging with " + format_bytes(memory_bytes) +
                          " of memory: no two inputs fit; raise it, or take smaller blocks");
}

std::uint64_t LinePlan::bytes_for_inputs(unsigned merges) const {
  return blocks_for_inputs(merges) * block_bytes;
}

MergedInput LinePlan::merged_input(std::uint64_t inputs, std::optional<std::uint64_t> bytes,
                                   unsigned merges) const {
  MergedInput input;
  const std::uint64_t in_blocks =
      FileSource::blocks_needed(merged_reader, block_bytes) * block_bytes;
  const std::uint64_t text = std::min(bytes.value_or(kShortBytesOfInput), kShortBytesOfInput);
  input.short_bytes = std::min(kShortTimesText * text + kLeastBytesOfInput, kShortBytesOfInput);
  const bool blocks_fit = inputs <= most_inputs(merges);
  input.in_blocks = blocks_fit && bytes.value_or(0) > InputText::kShort;
  const std::uint64_t share = bytes_for_inputs(merges) / inputs;
  const std::uint64_t buffer = blocks_fit ? std::min(in_blocks, kMostBuffer)
                                          : std::clamp(share - std::min(share, kShortBytesOfInput),
                                                       kLeastBuffer, kMostBuffer);
  input.buffer_bytes = static_cast<std::size_t>(buffer);
  input.reading_bytes =
      input.in_blocks ? in_blocks : std::min(buffer, bytes.value_or(buffer) + kLeastBytesOfInput);
  return input;
}

std::uint64_t LinePlan::bytes_beside_inputs(const MergedInput& together, unsigned merges) const {
  const std::uint64_t all = pool_blocks / merges * block_bytes;
  const std::uint64_t taken = together.reading_bytes + blocks_to_write({}, merges) * block_bytes;
  const std::uint64_t left = all - std::min(all, taken);
  return left - std::min(together.short_bytes, left / 4 * 3);
}

MergedInput LinePlan::merged_together(std::span<const std::uint64_t> lengths,
                                      unsigned merges) const {
  MergedInput together;
  for (const std::uint64_t bytes : lengths) {
    const MergedInput input = merged_input(lengths.size(), bytes, merges);
    together.reading_bytes += input.reading_bytes;
    together.short_bytes += input.short_bytes;
  }
  return together;
}

unsigned LinePlan::input_merges_at_once(std::span<const std::uint64_t> lengths) const {
  return detail::threads_that_fit(threads, [&](unsigned merges) {
    const MergedInput all = merged_together(lengths, merges);
    return all.reading_bytes + all.short_bytes <= bytes_for_inputs(merges);
  });
}

}}  // namespace vortex::v0
