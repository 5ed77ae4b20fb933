#include "lines/runs/merge_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "lines/runs/block_forecasts.h"

namespace vortex { inline namespace v0 {

std::vector<RunSlice> slices_of(std::vector<LineRun>& runs, const MergePart& part) {
  std::vector<RunSlice> slices;
  slices.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    LineRun& run = runs[i];
    const RunPart& of_run = part.runs[i];
    const std::size_t block_bytes = run.run.store->block_bytes();
    const RunPart::Blocks blocks = of_run.blocks(block_bytes);
    const bool empty = blocks.begin == blocks.end;
    slices.push_back({
        .run = &run.run,
        .first_block = blocks.begin,
        .bytes = empty ? 0 : of_run.end.offset - blocks.begin * block_bytes,
        .freed_begin = blocks.begin + (of_run.begin.offset % block_bytes != 0 ? 1 : 0),
        .freed_end =
            of_run.end.offset == run.end.offset ? blocks.end : of_run.end.offset / block_bytes,
    });
  }
  return slices;
}

std::unique_ptr<OrderOfNeed> order_of_need(const std::vector<LineRun>& runs, const MergePart& part,
                                           const StoredOrder& order) {
  const StoredOrder of_forecasts = forecast_order(order);
  std::vector<NeededBlock> first;
  std::vector<ForecastCursor> cursors;
  std::vector<std::uint64_t> first_blocks;
  const auto block_of = [&](std::uint32_t run, std::uint64_t block) {
    return NeededBlock{run, runs[run].run.places.place(block).file, block - first_blocks[run]};
  };
  const auto count = static_cast<std::uint32_t>(runs.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const LineRun& run = runs[i];
    const RunPart::Blocks blocks = part.runs[i].blocks(run.run.store->block_bytes());
    first_blocks.push_back(blocks.begin);
    // Those that the merge begins with.
    std::uint64_t block = blocks.begin;
    const std::uint64_t begun = std::max(blocks.begin + 1, run.forecasts.first_blocks());
    for (; block < std::min(begun, blocks.end); ++block) first.push_back(block_of(i, block));
    cursors.emplace_back(run.forecasts, of_forecasts, block, blocks.end, run.run.blocks());
  }
  return foretold_order(
      std::move(first), count,
      [&](std::uint32_t run) -> std::optional<NeededBlock> {
        if (!cursors[run].advance()) return std::nullopt;
        return block_of(run, cursors[run].block());
      },
      [&](std::uint32_t a, std::uint32_t b) {
        return difference(cursors[a].stored(), cursors[b].stored(), of_forecasts, 0).order < 0;
      });
}

}}  // namespace vortex::v0
