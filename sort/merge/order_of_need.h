// The order in which a merge needs the blocks of its runs.
#pragma once

#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

namespace vortex { inline namespace v0 {

// One block of a run, and the disk it lies on.
struct NeededBlock {
  std::uint32_t run = 0;
  std::uint32_t disk = 0;
  std::uint64_t index = 0;  // in the run

  friend bool operator==(const NeededBlock&, const NeededBlock&) = default;
};

// A block's place in the order of need.
using Position = std::uint32_t;
inline constexpr Position kNoPosition = ~Position{0};

// Tells the order of need (σ of the papers) one block at a time, so that a policy looks ahead no
// farther than it must. One reader; next() neither allocates nor throws, for it may run in a fault.
class OrderOfNeed {
 public:
  virtual ~OrderOfNeed() = default;

  // Blocks in all.
  virtual Position blocks() const noexcept = 0;

  // The next block of the order; false behind the last.
  virtual bool next(NeededBlock& block) noexcept = 0;
};

// An order that is known in full; several merges of one phase are simply put one behind the other,
// with runs numbered through.
class KnownOrder final : public OrderOfNeed {
 public:
  explicit KnownOrder(std::vector<NeededBlock> order) : order_(std::move(order)) {
    assert(order_.size() < kNoPosition);
  }

  Position blocks() const noexcept override { return static_cast<Position>(order_.size()); }

  bool next(NeededBlock& block) noexcept override {
    if (next_ == order_.size()) return false;
    block = order_[next_++];
    return true;
  }

 private:
  std::vector<NeededBlock> order_;
  std::size_t next_ = 0;
};

// All of an order.
inline std::vector<NeededBlock> whole_order(OrderOfNeed& order) {
  std::vector<NeededBlock> blocks;
  blocks.reserve(order.blocks());
  for (NeededBlock block; order.next(block);) blocks.push_back(block);
  return blocks;
}

}}  // namespace vortex::v0
