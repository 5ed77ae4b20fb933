#include "sort/merge/forecast_and_flush.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace vortex { inline namespace v0 {

std::size_t ForecastAndFlush::minimum_buffers(const PrefetchOptions& options,
                                              std::uint32_t runs) noexcept {
  return std::max<std::size_t>(options.held_blocks, runs) + runs + options.disks;
}

ForecastAndFlush::ForecastAndFlush(std::unique_ptr<OrderOfNeed> order,
                                   const PrefetchOptions& options, std::uint32_t runs)
    : PrefetchPolicy("forecast and flush", std::move(order), options,
                     minimum_buffers(options, runs)),
      lookahead_(options.disks, blocks()),
      first_blocks_(std::min<Position>(runs, blocks())),
      kept_(options.disks, kNoPosition) {
  planned_.reserve(2 * std::size_t{options.disks});
  // Step 1 and 2: the first blocks are read before anything is forecast.
  while (known() < first_blocks_ && look_ahead()) {
    lookahead_.append(block(known() - 1).disk, known() - 1);
  }
}

PrefetchAction ForecastAndFlush::decide() noexcept {
  if (planned_done_ == planned_.size()) {
    // The reads of a parallel read end together: the next one waits for the last of them.
    if (in_flight_ != 0) return {};
    planned_.clear();
    planned_done_ = 0;
    if (first_blocks_planned_ < first_blocks_) {
      plan_first_blocks();
    } else if (known() == first_blocks_ && marked_ == kNoPosition && !read_due_) {
      // Steps 3 to 5, once.
      fill_lookahead();
      if (known() == first_blocks_) return {};
      marked_ = first_blocks_;
      plan_parallel_read();
    } else if (read_due_) {
      read_due_ = false;
      plan_parallel_read();
    }
    if (planned_.empty()) return {};
  }
  const PrefetchAction action = planned_[planned_done_++];
  if (action.kind == PrefetchAction::Kind::kFetch) ++in_flight_;
  return action;
}

// Step 1: as many parallel reads as the disk with most first blocks has of them.
void ForecastAndFlush::plan_first_blocks() noexcept {
  for (unsigned disk = 0; disk < disks(); ++disk) {
    const Position position = lookahead_.head(disk);
    if (position == kNoPosition) continue;
    lookahead_.remove_head(disk);
    planned_.push_back(fetch(position));
    ++first_blocks_planned_;
  }
  count_parallel_read();
}

// Steps 6 to 9.
void ForecastAndFlush::plan_parallel_read() noexcept {
  choose_flushes();

  bool reads = false;
  for (unsigned disk = 0; disk < disks(); ++disk) {
    const Position position = lookahead_.head(disk);
    if (kept_[disk] != kNoPosition || position == kNoPosition) continue;
    lookahead_.remove_head(disk);
    planned_.push_back(fetch(position));
    reads = true;
  }
  if (reads) count_parallel_read();

  fill_lookahead();
  next_marked_ = kNoPosition;
  for (unsigned disk = 0; disk < disks(); ++disk) {
    next_marked_ = std::min(next_marked_, lookahead_.head(disk));
  }
}

// Step 6: while fewer buffers are free than blocks are to be read, the block in memory that is
// needed last is flushed.
void ForecastAndFlush::choose_flushes() noexcept {
  std::fill(kept_.begin(), kept_.end(), kNoPosition);
  std::size_t to_read = 0;
  for (unsigned disk = 0; disk < disks(); ++disk) to_read += lookahead_.head(disk) != kNoPosition;
  std::size_t free = free_buffers();
  for (Position position = known(); free < to_read;) {
    assert(position > 0);
    --position;
    if (state(position) != State::kReady) continue;
    marked_ = std::min(marked_, position);  // step 6 (c)
    const unsigned disk = block(position).disk;
    const Position farther = std::exchange(kept_[disk], position);
    if (farther == kNoPosition) {
      // Flushed, the block would be the one to be read from its disk: it stays in place of that
      // read.
      to_read -= lookahead_.head(disk) != kNoPosition;
    } else {
      lookahead_.put_back(disk, farther);
      planned_.push_back(drop(farther));
      ++free;
    }
  }
}

// Step 8: until each disk has a block to be read, or all blocks are known.
void ForecastAndFlush::fill_lookahead() noexcept {
  for (unsigned disk = 0; disk < disks(); ++disk) {
    while (lookahead_.head(disk) == kNoPosition && look_ahead()) {
      lookahead_.append(block(known() - 1).disk, known() - 1);
    }
  }
}

// Step 11 (b).
void ForecastAndFlush::on_taken(Position position) noexcept {
  if (position != marked_) return;
  marked_ = next_marked_;
  read_due_ = true;
}

AsynchronousForecastAndFlush::AsynchronousForecastAndFlush(std::unique_ptr<OrderOfNeed> order,
                                                           const PrefetchOptions& options,
                                                           std::uint32_t runs,
                                                           unsigned reads_per_disk)
    : PrefetchPolicy("asynchronous forecast and flush", std::move(order), options,
                     ForecastAndFlush::minimum_buffers(options, runs)),
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

// The block that is needed first among those that a disk could start to read now.
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

void AsynchronousForecastAndFlush::on_taken(Position) noexcept {
  while (next_taken_ < known() && state(next_taken_) >= State::kHeld) ++next_taken_;
}

}}  // namespace vortex::v0
