#include "sort/merge/asynchronous_forecast_and_flush.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "sort/merge/forecast_and_flush.h"

namespace vortex::inline v0 {

std::size_t AsynchronousForecastAndFlush::minimum_buffers(const PrefetchOptions& options,
                                                          std::uint32_t runs) noexcept {
  return ForecastAndFlush::minimum_buffers(options, runs);
}

AsynchronousForecastAndFlush::AsynchronousForecastAndFlush(std::unique_ptr<OrderOfNeed> order,
                                                           const PrefetchOptions& options,
                                                           std::uint32_t runs,
                                                           unsigned reads_per_disk)
    : PrefetchPolicy("asynchronous forecast and flush", std::move(order), options,
                     minimum_buffers(options, runs)),
      lookahead_(options.disks, blocks()),
      reads_per_disk_(std::max(reads_per_disk, 1U)),
      reading_(options.disks, 0) {}

PrefetchAction AsynchronousForecastAndFlush::decide() noexcept {
  const Position position = first_unread();
  if (position == kNoPosition) return {};
  if (free_buffers() == 0) {
    if (position >= next_taken_ + disks()) return {};
    const Position farthest = last_ready();
    if (farthest == kNoPosition || farthest < position) return {};
    lookahead_.put_back(block(farthest).disk, farthest);
    return drop(farthest);
  }
  lookahead_.remove_head(block(position).disk);
  ++reading_[block(position).disk];
  return fetch(position);
}

// Of the blocks that a disk could start to read, the one that is needed first.
Position AsynchronousForecastAndFlush::first_unread() noexcept {
  Position first = kNoPosition;
  for (unsigned disk = 0; disk < disks(); ++disk) {
    if (reading_[disk] >= reads_per_disk_) continue;
    while (lookahead_.head(disk) == kNoPosition && look_ahead()) {
      lookahead_.append(block(known() - 1).disk, known() - 1);
    }
    first = std::min(first, lookahead_.head(disk));
  }
  return first;
}

Position AsynchronousForecastAndFlush::last_ready() noexcept {
  Position position = known();
  while (position > next_taken_) {
    --position;
    if (state(position) == State::kReady) return position;
  }
  return kNoPosition;
}

void AsynchronousForecastAndFlush::on_taken(Position position) noexcept {
  assert(position == next_taken_);
  next_taken_ = position + 1;
}

}  // namespace vortex::inline v0
