// Forecasting data that are too large for memory.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sort/merge/order_of_need.h"

namespace vortex { inline namespace v0 {

// An order of need whose forecasting data are read through a buffer of some keys a run (Barve and
// Vitter, section 4.1.2): the order itself does not change, and the reads are counted. The last key
// of a run's last block forecasts nothing.
class BufferedForecasts final : public OrderOfNeed {
 public:
  // `run_blocks`: how many blocks each run has. `buffered_keys` is at least 1.
  BufferedForecasts(std::unique_ptr<OrderOfNeed> order, std::vector<std::uint64_t> run_blocks,
                    std::uint64_t buffered_keys)
      : order_(std::move(order)),
        run_blocks_(std::move(run_blocks)),
        buffered_keys_(buffered_keys) {
    for (const std::uint64_t blocks : run_blocks_) reads_ += blocks > 1;
  }

  Position blocks() const noexcept override { return order_->blocks(); }

  // When a block is told, the next key of its run is looked at.
  bool next(NeededBlock& block) noexcept override {
    if (!order_->next(block)) return false;
    const std::uint64_t key = block.index;
    reads_ += key != 0 && key + 1 < run_blocks_[block.run] && key % buffered_keys_ == 0;
    return true;
  }

  // How often a run's buffer has been filled.
  std::uint64_t reads() const noexcept { return reads_; }

 private:
  const std::unique_ptr<OrderOfNeed> order_;
  const std::vector<std::uint64_t> run_blocks_;
  const std::uint64_t buffered_keys_;
  std::uint64_t reads_ = 0;
};

}}  // namespace vortex::v0
