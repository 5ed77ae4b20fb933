#include "sort/merge/prefetch_policy.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <string>
#include <utility>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

PrefetchPolicy::PrefetchPolicy(std::string_view name, std::unique_ptr<OrderOfNeed> order,
                               const PrefetchOptions& options, std::size_t minimum_buffers)
    : options_(options), order_(std::move(order)), state_(order_->blocks(), State::kOnDisk) {
  if (options.disks == 0) throw Error(EINVAL, "a prefetch policy for no disks");
  if (options.buffers < minimum_buffers) {
    throw Error(ENOBUFS, "prefetch policy \"" + std::string(name) + "\" has " +
                             std::to_string(options.buffers) + " buffers; it needs at least " +
                             std::to_string(minimum_buffers) + " for " +
                             std::to_string(options.held_blocks) + " blocks held by the merge on " +
                             std::to_string(options.disks) +
                             " disks: merge fewer runs at a time, or use smaller blocks");
  }
  // look_ahead() may run inside a fault and must find the room there.
  order_so_far_.reserve(order_->blocks());
}

PrefetchPolicy::~PrefetchPolicy() = default;

PrefetchAction PrefetchPolicy::next() noexcept {
  const PrefetchAction action = decide();
  switch (action.kind) {
    case PrefetchAction::Kind::kNothing:
      break;
    case PrefetchAction::Kind::kFetch:
      assert(state_[action.position] == State::kOnDisk);
      assert(in_use_ < options_.buffers);
      state_[action.position] = State::kFetching;
      ++in_use_;
      ++statistics_.fetches;
      statistics_.peak_buffers = std::max(statistics_.peak_buffers, in_use_);
      break;
    case PrefetchAction::Kind::kDrop:
      assert(state_[action.position] == State::kReady);
      state_[action.position] = State::kOnDisk;
      --in_use_;
      ++statistics_.drops;
      break;
  }
  return action;
}

void PrefetchPolicy::fetched(Position position) noexcept {
  assert(state_[position] == State::kFetching);
  state_[position] = State::kReady;
  on_fetched(position);
}

void PrefetchPolicy::taken(Position position) noexcept {
  assert(state_[position] == State::kReady);
  state_[position] = State::kHeld;
  on_taken(position);
}

void PrefetchPolicy::released(Position position) noexcept {
  assert(state_[position] == State::kHeld);
  state_[position] = State::kDone;
  --in_use_;
  on_released(position);
}

bool PrefetchPolicy::look_ahead() noexcept {
  NeededBlock block;
  if (!order_->next(block)) return false;
  assert(block.disk < options_.disks);
  assert(order_so_far_.size() < state_.size());
  order_so_far_.push_back(block);
  return true;
}

}}  // namespace vortex::v0
