// How merges of lines divide the memory.
#include <algorithm>

#include "lines/job/line_plan.h"
#include "lines/record/record_keys.h"
#include "lines/runs/line_run.h"
#include "lines/text/input_text.h"
#include "sort/merge/prefetch_kind.h"
#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

namespace {

// Blocks that a merge reads ahead: two of each disk and these at least, or it would wait; and no
// more than so many of each run and each disk, for blocks that are used for the first time take
// time.
constexpr std::size_t kLeastAhead = 4;
constexpr std::size_t kMostAheadOfRun = 4;
constexpr std::size_t kMostAheadOfDisk = 16;
// What a merge keeps of each block of its runs: its place in the order of need and in the order of
// fetching, its buffer, and what it takes to find them.
constexpr std::uint64_t kBytesOfMergedBlock = 64;
// The keys of short records of an input that is merged, and copies of the one before; where it has
// little text, so many times as much, and what keeps them.
constexpr std::uint64_t kShortBytesOfInput = 12 * kLongRecord;
constexpr std::uint64_t kShortTimesText = 16;
constexpr std::uint64_t kLeastBytesOfInput = std::uint64_t{4} << 10;
// An input that is merged gets a buffer of so many bytes: less takes more calls than it saves
// merges, and more saves nothing.
constexpr std::uint64_t kLeastBuffer = std::uint64_t{16} << 10;
constexpr std::uint64_t kMostBuffer = std::uint64_t{256} << 10;

PrefetchOptions options_of(const LinePlan& plan, std::uint64_t runs, std::uint64_t longest) {
  PrefetchOptions options;
  options.disks = plan.disks;
  options.held_blocks =
      static_cast<std::size_t>(runs) * RunCursor::window_blocks(longest, plan.block_bytes);
  return options;
}

std::size_t least_ahead(const LinePlan& plan) {
  return std::max<std::size_t>(2 * std::size_t{plan.disks}, kLeastAhead);
}

// Stripes are read of blocks that the merge has left, so it must not hold more of a run than one.
PrefetchKind kind_for(const LinePlan& plan, std::uint64_t longest) {
  const bool holds_more =
      RunCursor::window_blocks(longest, plan.block_bytes) > std::size_t{plan.disks} + 1;
  return plan.prefetch == PrefetchKind::kStriped && holds_more ? PrefetchKind::kOptimal
                                                               : plan.prefetch;
}

}  // namespace

// What each of so many merges has for reading; what they keep of the blocks is not used for blocks.
std::size_t LinePlan::reading_blocks(std::uint64_t blocks, unsigned merges) const {
  const std::uint64_t kept = detail::units_for(blocks * kBytesOfMergedBlock, block_bytes);
  const std::uint64_t each = (pool_blocks - std::min<std::uint64_t>(pool_blocks, kept)) / merges;
  return static_cast<std::size_t>(each - std::min<std::uint64_t>(each, writing_blocks()));
}

std::size_t LinePlan::least_buffers(PrefetchKind kind, std::uint64_t runs, std::uint64_t longest,
                                    std::size_t ahead) const {
  const PrefetchOptions options = options_of(*this, runs, longest);
  return std::max(minimum_read_buffers(kind, options, static_cast<std::uint32_t>(runs)),
                  options.held_blocks + ahead);
}

std::uint64_t LinePlan::most_runs(std::uint64_t longest, std::uint64_t blocks,
                                  unsigned parts) const {
  const std::size_t reading = reading_blocks(blocks, parts);
  std::uint64_t runs = reading / RunCursor::window_blocks(longest, block_bytes);
  const PrefetchKind kind = kind_for(*this, longest);
  while (runs >= 2 && least_buffers(kind, runs, longest, least_ahead(*this)) > reading) --runs;
  if (runs >= 2) return runs;
  // Two, if they can be merged at all.
  return least_buffers(PrefetchKind::kOptimal, 2, longest, 1) <= reading ? 2 : runs;
}

LinePrefetch LinePlan::prefetch_of(const LineMergeSize& size, unsigned merges) const {
  LinePrefetch prefetch{kind_for(*this, size.longest), options_of(*this, size.runs, size.longest)};
  const std::size_t reading = reading_blocks(size.blocks, merges);
  std::size_t least = least_buffers(prefetch.kind, size.runs, size.longest, 1);
  if (least > reading) {
    prefetch.kind = PrefetchKind::kOptimal;
    least = least_buffers(prefetch.kind, size.runs, size.longest, 1);
  }
  const std::size_t ahead = std::max<std::size_t>(
      kMostAheadOfRun * static_cast<std::size_t>(size.runs), kMostAheadOfDisk * disks);
  prefetch.options.buffers =
      std::max(least, std::min(reading, prefetch.options.held_blocks + ahead));
  return prefetch;
}

unsigned LinePlan::merges_at_once(const LineMergeSize& size) const {
  const std::size_t least =
      least_buffers(kind_for(*this, size.longest), size.runs, size.longest, least_ahead(*this));
  unsigned merges = std::max(threads, 1u);
  while (merges > 1 && least > reading_blocks(size.blocks, merges)) --merges;
  return merges;
}

// Half of the memory is for records that cross the borders of blocks, for keys, and for copies.
std::uint64_t LinePlan::most_inputs() const {
  const std::size_t writing = writing_blocks();
  if (pool_blocks / 2 <= writing) return 0;
  return (pool_blocks / 2 - writing) / FileReaderBase::blocks_needed(merged_reader, block_bytes);
}

std::uint64_t LinePlan::bytes_for_inputs() const {
  const std::size_t half = pool_blocks / 2;
  return (half - std::min(half, writing_blocks())) * block_bytes;
}

MergedInput LinePlan::merged_input(std::uint64_t inputs, std::optional<std::uint64_t> bytes) const {
  MergedInput input;
  const std::uint64_t in_blocks =
      FileReaderBase::blocks_needed(merged_reader, block_bytes) * block_bytes;
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
