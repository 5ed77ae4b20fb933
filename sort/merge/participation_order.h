// The order in which a merge through plain run pointers needs its blocks.
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

// The participation order (Barve and Vitter, section 2.2): the first blocks of the runs, in the
// order of the runs, then block i + 1 of a run when block i is used up, which is when the last key
// of block i is the smallest left. Ties go to the run with the lower index, as they must in the
// merge too: with keys compared in full and ties broken alike, a merge takes its blocks in exactly
// this order, however many keys are equal.
//
// Where records straddle blocks, "the last key" is that of the record after which the merge touches
// the next block.
template <typename Key, typename Less = std::less<Key>, typename Placement = BlockAllocation>
class ParticipationOrder final : public OrderOfNeed {
 public:
  // `last_keys[r][i]` is the last key of block i of run r; the keys must outlive the order.
  // `placements[r].disk(i)` is the disk of block i of run r.
  ParticipationOrder(std::vector<std::span<const Key>> last_keys, std::vector<Placement> placements,
                     Less less = {})
      : placements_(std::move(placements)), heap_(forecasts(last_keys), std::move(less)) {
    assert(last_keys.size() == placements_.size());
    for (std::uint32_t run = 0; run < last_keys.size(); ++run) {
      if (!last_keys[run].empty()) first_blocks_.push_back(run);
      blocks_ += static_cast<Position>(last_keys[run].size());
    }
  }

  Position blocks() const noexcept override { return blocks_; }

  bool next(NeededBlock& block) noexcept override {
    if (started_ < first_blocks_.size()) {
      place(first_blocks_[started_++], 0, block);
      return true;
    }
    typename ForecastingHeap<Key, Less>::Forecast forecast;
    if (!heap_.next(forecast)) return false;
    place(forecast.run, forecast.index + 1, block);
    return true;
  }

 private:
  // The last key of a run's last block forecasts nothing.
  static std::vector<std::span<const Key>> forecasts(std::vector<std::span<const Key>> last_keys) {
    for (auto& keys : last_keys) {
      if (!keys.empty()) keys = keys.first(keys.size() - 1);
    }
    return last_keys;
  }

  void place(std::uint32_t run, std::uint64_t index, NeededBlock& block) const noexcept {
    block = {run, placements_[run].disk(index), index};
  }

  std::vector<Placement> placements_;
  ForecastingHeap<Key, Less> heap_;
  std::vector<std::uint32_t> first_blocks_;  // the runs that have one
  std::size_t started_ = 0;
  Position blocks_ = 0;
};

}}  // namespace vortex::v0
