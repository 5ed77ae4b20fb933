#include "lines/runs/merge_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lines/runs/block_forecasts.h"
#include "lines/runs/line_merge.h"

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
  std::vector<NeededBlock> needed;
  std::vector<std::unique_ptr<ForecastCursor>> cursors;
  std::vector<ForecastCursor*> players;
  std::vector<std::uint64_t> first_blocks;
  const auto need = [&](std::size_t run, std::uint64_t block) {
    needed.push_back({static_cast<std::uint32_t>(run), runs[run].run.places.place(block).file,
                      block - first_blocks[run]});
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LineRun& run = runs[i];
    const RunPart::Blocks blocks = part.runs[i].blocks(run.run.store->block_bytes());
    first_blocks.push_back(blocks.begin);
    // Those that the merge begins with.
    std::uint64_t block = blocks.begin;
    const std::uint64_t first = std::max(blocks.begin + 1, run.forecasts.first_blocks());
    for (; block < std::min(first, blocks.end); ++block) need(i, block);
    cursors.push_back(std::make_unique<ForecastCursor>(run.forecasts, of_forecasts, block,
                                                       blocks.end, run.run.blocks()));
    players.push_back(cursors.back().get());
  }
  LineMerge<ForecastCursor> merge(players, of_forecasts);
  merge.start();
  while (merge.next()) need(merge.cursor(), players[merge.cursor()]->block());
  return std::make_unique<KnownOrder>(std::move(needed));
}

}}  // namespace vortex::v0
