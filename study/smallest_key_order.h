// The order in which the block merger takes its blocks.
#pragma once

#include <cassert>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "io/sequence/block_allocation.h"
#include "sort/merge/forecasting_heap.h"
#include "sort/merge/order_of_need.h"

namespace vortex { inline namespace v0 {

// The prediction sequence of SPAA, section 2.2: all blocks by their smallest keys, ties to the run
// with the lower index. It belongs to BlockMerger, which reads blocks in this order whatever run
// they come from. A merge through plain run pointers needs ParticipationOrder instead: it asks for
// the next block of the run whose block is used up, and where many keys are equal that is another
// block than the one with the smallest key; with few buffers it waits for ever.
template <typename Key, typename Less = std::less<Key>>
class SmallestKeyOrder final : public OrderOfNeed {
 public:
  // `first_keys[r][i]` is the first key of block i of run r; the keys must outlive the order.
  SmallestKeyOrder(std::vector<std::span<const Key>> first_keys,
                   std::vector<BlockAllocation> allocations, Less less = {})
      : allocations_(std::move(allocations)), heap_(first_keys, std::move(less)) {
    assert(first_keys.size() == allocations_.size());
    for (const auto& keys : first_keys) blocks_ += static_cast<Position>(keys.size());
  }

  Position blocks() const noexcept override { return blocks_; }

  bool next(NeededBlock& block) noexcept override {
    typename ForecastingHeap<Key, Less>::Forecast forecast;
    if (!heap_.next(forecast)) return false;
    block = {forecast.run, allocations_[forecast.run].disk(forecast.index), forecast.index};
    return true;
  }

 private:
  std::vector<BlockAllocation> allocations_;
  ForecastingHeap<Key, Less> heap_;
  Position blocks_ = 0;
};

}}  // namespace vortex::v0
