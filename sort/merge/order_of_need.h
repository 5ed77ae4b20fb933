// The order in which a merge needs the blocks of its runs.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
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

// The participation order (Barve and Vitter, section 2.2) of runs that are numbered from 0: what is
// needed first, and then each block when the merge has used up what foretells it. advance(run) goes
// to the next forecast of a run and returns the block that it foretells, or none, and less(a, b)
// tells whether that of run a comes before that of run b. Ties go to the run with the lower index,
// as they must in the merge too: with whole keys as forecasts and ties broken alike, a merge takes
// its blocks in exactly this order, however many keys are equal.
template <typename Advance, typename Less>
std::vector<NeededBlock> foretold_blocks(std::vector<NeededBlock> needed, std::uint32_t runs,
                                         const Advance& advance, const Less& less) {
  std::vector<NeededBlock> heap;  // one of a run
  const auto later = [&](const NeededBlock& a, const NeededBlock& b) {
    return less(b.run, a.run) || (b.run < a.run && !less(a.run, b.run));
  };
  const auto enter = [&](std::uint32_t run) {
    const std::optional<NeededBlock> block = advance(run);
    if (!block) return;
    heap.push_back(*block);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (std::uint32_t run = 0; run < runs; ++run) enter(run);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    needed.push_back(heap.back());
    heap.pop_back();
    enter(needed.back().run);
  }
  return needed;
}

// The same as an order.
template <typename Advance, typename Less>
std::unique_ptr<OrderOfNeed> foretold_order(std::vector<NeededBlock> needed, std::uint32_t runs,
                                            const Advance& advance, const Less& less) {
  return std::make_unique<KnownOrder>(foretold_blocks(std::move(needed), runs, advance, less));
}

}}  // namespace vortex::v0
