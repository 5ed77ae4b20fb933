#include "vortex/output_stream.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <mutex>
#include <utility>

#include "vortex/block_window.h"
#include "vortex/error.h"

namespace vortex {
namespace {

constexpr std::uint64_t kNoEndYet = std::numeric_limits<std::uint64_t>::max();

}  // namespace

OutputStreamBase::OutputStreamBase(std::unique_ptr<Sink> sink, Options options)
    : Stream(options.name, Reservation({.bytes = options.reserve_bytes,
                                        .least_bytes = options.least_reserve_bytes})),
      sink_(std::move(sink)),
      pool_(sink_->pool()),
      in_place_(sink_->in_place()),
      block_bytes_(pool_.block_bytes()),
      window_blocks_(options.comeback_blocks + 1),
      page_tables_(reservation(), block_bytes_) {
  if (sink_->blocks_for_stream() < window_blocks_) {
    throw Error(EINVAL, "stream '" + name() + "': a comeback of " +
                            std::to_string(options.comeback_blocks) + " blocks needs " +
                            std::to_string(window_blocks_) + ", and its sink guarantees " +
                            std::to_string(sink_->blocks_for_stream()));
  }
  slots_.resize(window_blocks_);
  open();
}

OutputStreamBase::~OutputStreamBase() {
  const bool in_child = inherited();
  close();
  if (in_child) return;
  drop_all();
  if (in_place_ != nullptr) in_place_->recall(base(), base() + reservation().bytes());
  if (!finished_) sink_->abandon();
}

int OutputStreamBase::move(Block block, std::byte* address) noexcept {
  return in_place_ != nullptr ? in_place_->place(block, address) : pool_.place(block, address);
}

void OutputStreamBase::reclaim_page_tables(std::uint64_t floor) noexcept {
  std::byte* finished = base() + floor * block_bytes_;
  if (in_place_ != nullptr) finished = in_place_->lowest_placed(base(), finished);
  page_tables_.finished_below(finished);
}

std::uint64_t OutputStreamBase::floor() const noexcept {
  return next_ > window_blocks_ ? next_ - window_blocks_ : 0;
}

Stream::Window OutputStreamBase::window() const noexcept { return {floor(), next_}; }

bool OutputStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes_;
  if (finished_) return fail(EFAULT, "touched after finish()", offset);
  const Slot& slot = slot_of(index);
  if (slot.block && slot.index == index) {
    note_spurious_fault();
    return true;
  }
  if (index < floor()) {
    return fail(EFAULT, "a touch behind the window: raise the comeback (L)", offset);
  }
  if (access == Access::kRead) {
    return fail(EFAULT, "a read of a block that was never written", offset);
  }
  if (offset - offset % block_bytes_ + block_bytes_ > reserved_bytes()) {
    return fail(ENOSPC, "the reservation ends here: raise reserve_bytes", offset);
  }
  if (index >= next_) {
    next_ = index + 1;
    if (!hand_over_below(floor(), kNoEndYet, offset)) return false;
  }
  return place_block(index, offset);
}

bool OutputStreamBase::place_block(std::uint64_t index, std::uint64_t offset) noexcept {
  const Sink::Taken taken = sink_->take(index);
  if (!taken.status.ok()) return fail(taken.status.error, taken.status.cause, offset);
  if (const int error = move(taken.block, base() + index * block_bytes_)) {
    sink_->discard(taken.block);
    return fail(error, kCannotMoveBlock, offset);
  }
  slot_of(index) = {taken.block, index};
  return true;
}

bool OutputStreamBase::hand_over_below(std::uint64_t floor, std::uint64_t length,
                                       std::uint64_t offset) noexcept {
  const std::uint64_t placed_end = std::min(floor, handed_over_ + window_blocks_);
  while (handed_over_ < floor) {
    Slot& slot = slot_of(handed_over_);
    const bool placed = handed_over_ < placed_end && slot.block && slot.index == handed_over_;
    Status status;
    if (placed) {
      const std::uint64_t bytes = std::min<std::uint64_t>(
          block_bytes_, length - std::min(length, handed_over_ * block_bytes_));
      // What follows the end of the data has to be filled, which is done at home.
      if (in_place_ == nullptr || bytes < block_bytes_) {
        if (const int error = move(slot.block, pool_.home(slot.block))) {
          return fail(error, kCannotMoveBlock, offset);
        }
      }
      status = sink_->complete(handed_over_, std::exchange(slot.block, Block{}), bytes);
      ++handed_over_;
    } else {
      const std::uint64_t first = handed_over_++;
      while (handed_over_ < placed_end &&
             !(slot_of(handed_over_).block && slot_of(handed_over_).index == handed_over_)) {
        ++handed_over_;
      }
      if (handed_over_ >= placed_end) handed_over_ = floor;
      status = sink_->skip(first, handed_over_ - first);
    }
    if (!status.ok()) return fail(status.error, status.cause, offset);
  }
  reclaim_page_tables(handed_over_);
  return true;
}

void OutputStreamBase::drop_all() noexcept {
  for (Slot& slot : slots_) {
    if (slot.block && move(slot.block, pool_.home(slot.block)) == 0) {
      sink_->discard(std::exchange(slot.block, Block{}));
    }
  }
}

void OutputStreamBase::finish_bytes(std::uint64_t length) {
  {
    std::lock_guard lock(mutex());
    failure().throw_if_failed();
    if (finished_) throw Error(EALREADY, "stream '" + name() + "' is finished already");
    if (length > reserved_bytes()) {
      throw Error(EINVAL, "stream '" + name() + "': an end at " + std::to_string(length) +
                              " bytes lies beyond the " + std::to_string(reserved_bytes()) +
                              " that were reserved");
    }
    if (handed_over_ * block_bytes_ > length) {
      throw Error(EINVAL, "stream '" + name() + "': an end at " + std::to_string(length) +
                              " bytes comes too late; " +
                              std::to_string(handed_over_ * block_bytes_) +
                              " bytes have been handed over already");
    }
    const std::uint64_t blocks = (length + block_bytes_ - 1) / block_bytes_;
    if (hand_over_below(blocks, length, length)) {
      finished_ = true;
      drop_all();
    }
  }
  failure().throw_if_failed();
  // Outside the lock: the sink may wait for disks, and cancel() must be able to wake it.
  const Status status = sink_->finish(length);
  if (!status.ok()) {
    fail(status.error, status.cause, length);
    failure().throw_if_failed();
  }
}

void OutputStreamBase::prefault(std::uint64_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  const std::uint64_t first = offset / block_bytes_;
  const std::uint64_t last = (offset + bytes - 1) / block_bytes_;
  {
    std::lock_guard lock(mutex());
    check_prefault_range(name(), first, last, floor(), window_blocks_);
    if (offset + bytes > reserved_bytes()) {
      throw Error(ERANGE, "stream '" + name() + "': cannot place " + std::to_string(bytes) +
                              " bytes at offset " + std::to_string(offset) +
                              ": the reservation ends at " + std::to_string(reserved_bytes()));
    }
    for (std::uint64_t index = first; index <= last; ++index) {
      const Slot& slot = slot_of(index);
      if (slot.block && slot.index == index) continue;
      if (!serve_locked(Access::kWrite, std::max(offset, index * block_bytes_))) break;
    }
  }
  failure().throw_if_failed();
}

}  // namespace vortex
