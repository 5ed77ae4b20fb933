// How merges of lines divide the memory.
#include <algorithm>

#include "lines/job/line_plan.h"
#include "lines/record/record_keys.h"
#include "lines/runs/line_run.h"
#include "lines/text/input_text.h"
#include "sort/plan/least_memory.h"
#include "vortex/detail/merge/merge_frontier.h"
#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

namespace {

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

// What each of `merges` has for reading: what they keep of the blocks, and a run in memory, is not
// used for blocks. One may write a run, which is written further behind than parts of the output,
// which have a head.
std::size_t LinePlan::reading_blocks(std::uint64_t blocks, unsigned merges) const {
  const std::size_t writing =
      merges > 1 ? FileWriterBase::blocks_needed(writer, block_bytes) + 1 : writing_blocks();
  const std::uint64_t kept =
      detail::units_for(blocks * kBytesOfMergedBlock + kept_bytes, block_bytes);
  const std::uint64_t each = (pool_blocks - std::min<std::uint64_t>(pool_blocks, kept)) / merges;
  return static_cast<std::size_t>(each - std::min<std::uint64_t>(each, writing));
}

std::uint64_t LinePlan::most_runs(std::uint64_t longest, std::uint64_t blocks,
                                  unsigned parts) const {
  const std::size_t buffers = reading_blocks(blocks, parts);
  const std::uint64_t runs = reading_of(*this, longest).most_runs(buffers, least_ahead(*this));
  if (runs >= 2) return runs;
  // Two, if they can be merged at all.
  const MergeReading least = reading_of(*this, PrefetchKind::kOptimal, longest);
  return least.least_buffers(2, 1) <= buffers ? 2 : runs;
}

LinePrefetch LinePlan::prefetch_of(const LineMergeSize& size, unsigned merges) const {
  MergeReading reading = reading_of(*this, size.longest);
  const std::size_t buffers = reading_blocks(size.blocks, merges);
  if (reading.least_buffers(size.runs, 1) > buffers) reading.kind = PrefetchKind::kOptimal;
  LinePrefetch prefetch{reading.kind, reading.options(size.runs)};
  const std::size_t ahead = std::max<std::size_t>(
      kMostAheadOfRun * static_cast<std::size_t>(size.runs), kMostAheadOfDisk * disks);
  prefetch.options.buffers = std::max(reading.least_buffers(size.runs, 1),
                                      std::min(buffers, prefetch.options.held_blocks + ahead));
  return prefetch;
}

unsigned LinePlan::merges_at_once(const LineMergeSize& size) const {
  const std::size_t least =
      reading_of(*this, size.longest).least_buffers(size.runs, least_ahead(*this));
  return detail::threads_that_fit(
      threads, [&](unsigned merges) { return least <= reading_blocks(size.blocks, merges); });
}

// Half of the memory is for records that cross the borders of blocks, for keys, and for copies.
std::uint64_t LinePlan::most_inputs() const {
  const std::size_t writing = writing_blocks();
  if (pool_blocks / 2 <= writing) return 0;
  return (pool_blocks / 2 - writing) / FileSource::blocks_needed(merged_reader, block_bytes);
}

std::uint64_t LinePlan::bytes_for_inputs() const {
  const std::size_t half = pool_blocks / 2;
  return (half - std::min(half, writing_blocks())) * block_bytes;
}

MergedInput LinePlan::merged_input(std::uint64_t inputs, std::optional<std::uint64_t> bytes) const {
  MergedInput input;
  const std::uint64_t in_blocks =
      FileSource::blocks_needed(merged_reader, block_bytes) * block_bytes;
  const std::uint64_t text = std::min(bytes.value_or(kShortBytesOfInput), kShortBytesOfInput);
  input.short_bytes = std::min(kShortTimesText * text + kLeastBytesOfInput, kShortBytesOfInput);
  const bool blocks_fit = inputs <= most_inputs();
  input.in_blocks = blocks_fit && bytes.value_or(0) > InputText::kShort;
  const std::uint64_t share = bytes_for_inputs() / inputs;
  const std::uint64_t buffer = blocks_fit ? std::min(in_blocks, kMostBuffer)
                                          : std::clamp(share - std::min(share, kShortBytesOfInput),
                                                       kLeastBuffer, kMostBuffer);
  input.buffer_bytes = static_cast<std::size_t>(buffer);
  input.reading_bytes =
      input.in_blocks ? in_blocks : std::min(buffer, bytes.value_or(buffer) + kLeastBytesOfInput);
  return input;
}

std::uint64_t LinePlan::bytes_beside_inputs(const MergedInput& together) const {
  const std::uint64_t all = pool_blocks * block_bytes;
  const std::uint64_t taken = together.reading_bytes + writing_blocks() * block_bytes;
  const std::uint64_t left = all - std::min(all, taken);
  return left - std::min(together.short_bytes, left / 4 * 3);
}

}}  // namespace vortex::v0
