#include "sort/merge/in_order_prefetch.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "sort/merge/merge_passes.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

std::size_t prefetch_blocks_of(const PrefetchOptions& options,
                               const OptimalPrefetch::Split& split) noexcept {
  if (split.prefetch_blocks != 0) return split.prefetch_blocks;
  const std::size_t held = std::min(options.held_blocks, options.buffers);
  return default_prefetch_blocks(options.buffers - held, options.disks);
}

struct WriteQueue {
  std::deque<Position> waiting;  // the first one is being written while `busy` is not 0
  unsigned block_time = 1;
  unsigned busy = 0;  // steps until that write ends
};

}  // namespace

PrefetchAction InOrderPrefetch::decide() noexcept {
  if (next_ == fetch_order_.size() || free_buffers() == 0) return {};
  return fetch(fetch_order_[next_++]);
}

std::size_t NaivePrefetch::minimum_buffers(const PrefetchOptions& options) noexcept {
  return std::max<std::size_t>(options.held_blocks, 1);
}

NaivePrefetch::NaivePrefetch(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options)
    : InOrderPrefetch("naive", std::move(order), options, minimum_buffers(options)) {
  while (look_ahead()) {
  }
  fetch_order_.resize(known());
  std::iota(fetch_order_.begin(), fetch_order_.end(), Position{0});
}

PrefetchOrder optimal_prefetch_order(std::span<const std::uint32_t> disk_of, unsigned disks,
                                     std::size_t buffers, std::span<const unsigned> block_times) {
  if (disks == 0 || buffers == 0) {
    throw Error(EINVAL, "a prefetch order needs at least one disk and one buffer, not " +
                            std::to_string(disks) + " and " + std::to_string(buffers));
  }
  if (!block_times.empty() &&
      (block_times.size() != disks || std::ranges::count(block_times, 0U))) {
    throw Error(EINVAL,
                "a prefetch order needs a block time above 0 for each disk, or none at all");
  }
  std::vector<WriteQueue> queues(disks);
  for (std::size_t disk = 0; disk < block_times.size(); ++disk) {
    queues[disk].block_time = block_times[disk];
  }

  PrefetchOrder result;
  result.order.reserve(disk_of.size());
  result.step.reserve(disk_of.size());
  std::vector<Position> written;  // by one step
  std::size_t buffered = 0;
  auto entering = static_cast<Position>(disk_of.size());
  while (result.order.size() < disk_of.size()) {
    for (; buffered < buffers && entering > 0; ++buffered) {
      --entering;
      assert(disk_of[entering] < disks);
      queues[disk_of[entering]].waiting.push_back(entering);
    }
    // The steps up to the next one that ends a write, at once.
    unsigned steps = std::numeric_limits<unsigned>::max();
    for (WriteQueue& queue : queues) {
      if (queue.waiting.empty()) continue;
      if (queue.busy == 0) queue.busy = queue.block_time;
      steps = std::min(steps, queue.busy);
    }
    result.steps += steps;
    written.clear();
    for (WriteQueue& queue : queues) {
      if (queue.waiting.empty() || (queue.busy -= steps) != 0) continue;
      written.push_back(queue.waiting.front());
      queue.waiting.pop_front();
    }
    buffered -= written.size();
    // Blocks of one step are fetched in the order in which they are needed.
    std::sort(written.begin(), written.end(), std::greater<>());
    for (const Position position : written) {
      result.order.push_back(position);
      result.step.push_back(result.steps - 1);
    }
  }
  std::reverse(result.order.begin(), result.order.end());
  std::reverse(result.step.begin(), result.step.end());
  for (std::uint32_t& step : result.step) step = result.steps - 1 - step;
  return result;
}

std::size_t OptimalPrefetch::minimum_buffers(const PrefetchOptions& options,
                                             const Split& split) noexcept {
  const std::size_t held = std::max<std::size_t>(options.held_blocks, 1);
  return held - 1 + prefetch_blocks_of(options, split);
}

OptimalPrefetch::OptimalPrefetch(std::unique_ptr<OrderOfNeed> order, const PrefetchOptions& options,
                                 const Split& split)
    : InOrderPrefetch("optimal", std::move(order), options, minimum_buffers(options, split)),
      prefetch_blocks_(prefetch_blocks_of(options, split)) {
  std::vector<std::uint32_t> disk_of;
  disk_of.reserve(blocks());
  while (look_ahead()) disk_of.push_back(block(known() - 1).disk);
  PrefetchOrder order_of_fetching =
      optimal_prefetch_order(disk_of, disks(), prefetch_blocks_, split.block_times);
  fetch_order_ = std::move(order_of_fetching.order);
  parallel_steps_ = order_of_fetching.steps;
}

}}  // namespace vortex::v0
