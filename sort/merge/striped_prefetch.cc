#include "sort/merge/striped_prefetch.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <string>
#include <utility>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

std::size_t StripedPrefetch::minimum_buffers(const PrefetchOptions& options,
                                             std::uint32_t runs) noexcept {
  return 2 * std::size_t{options.disks} * runs;
}

StripedPrefetch::StripedPrefetch(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
                                 std::uint32_t runs)
    : PrefetchPolicy("striped", std::move(order), options, minimum_buffers(options, runs)),
      runs_(runs) {
  if (options.held_blocks > (std::size_t{options.disks} + 1) * runs) {
    throw Error(EINVAL, "striped prefetching: the merge holds " +
                            std::to_string(options.held_blocks) + " blocks of " +
                            std::to_string(runs) +
                            " runs, more than D + 1 = " + std::to_string(options.disks + 1) +
                            " of a run: use larger blocks, so that the comeback is fewer of them");
  }
  while (look_ahead()) {
    const Position position = known() - 1;
    Run& run = runs_.at(block(position).run);
    assert(block(position).index == run.blocks.size());
    run.blocks.push_back(position);
  }
  planned_.reserve(blocks());
  for (Run& run : runs_) plan_stripe(run, 0);
  for (Run& run : runs_) plan_stripe(run, 1);
}

PrefetchAction StripedPrefetch::decide() noexcept {
  if (planned_done_ == planned_.size()) return {};
  return fetch(planned_[planned_done_++]);
}

void StripedPrefetch::on_released(Position position) noexcept {
  Run& run = runs_[block(position).run];
  assert(run.blocks[run.released] == position);
  ++run.released;
  if (run.released % disks() == 0) plan_stripe(run, run.released / disks() + 1);
}

void StripedPrefetch::plan_stripe(Run& run, std::uint64_t stripe) noexcept {
  const std::uint64_t first = stripe * disks();
  if (first >= run.blocks.size()) return;
  const std::uint64_t end = std::min<std::uint64_t>(first + disks(), run.blocks.size());
  for (std::uint64_t index = first; index < end; ++index) planned_.push_back(run.blocks[index]);
  count_parallel_read();
}

}}  // namespace vortex::v0
