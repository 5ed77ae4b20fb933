#include "sort/merge/in_order_prefetch.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "sort/merge/merge_passes.h"
#include "sort/merge/prefetch_order.h"

namespace vortex { inline namespace v0 {

namespace {

std::size_t prefetch_blocks_of(const PrefetchOptions& options,
                               const OptimalPrefetch::Split& split) noexcept {
  if (split.prefetch_blocks != 0) return split.prefetch_blocks;
  const std::size_t held = std::min(options.held_blocks, options.buffers);
  return default_prefetch_blocks(options.buffers - held, options.disks);
}

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
