#include "vortex/input_stream.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/block_window.h"
#include "vortex/error.h"
#include "vortex/os_memory.h"

namespace vortex {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

Reservation reservation_for(const Source& source, std::size_t block_bytes,
                            const InputStreamOptions& options) {
  std::uint64_t needed = std::uint64_t{1} << 30;
  std::uint64_t wanted = kUnknownLengthReservation;
  if (const auto length = source.length()) {
    // Whole blocks, and a block more for the filler that follows the data.
    needed = round_up(*length, block_bytes) + block_bytes;
    wanted = needed;
  }
  if (options.reserve_bytes != 0) wanted = round_up(options.reserve_bytes, block_bytes);
  const std::uint64_t least =
      options.least_reserve_bytes != 0 ? options.least_reserve_bytes : std::min(needed, wanted);
  return Reservation({.bytes = wanted, .least_bytes = std::min(least, wanted)});
}

}  // namespace

InputStreamBase::InputStreamBase(std::unique_ptr<Source> source, Options options)
    : Stream(options.name, reservation_for(*source, source->pool().block_bytes(), options)),
      source_(std::move(source)),
      pool_(source_->pool()),
      in_place_(source_->in_place()),
      block_bytes_(pool_.block_bytes()),
      window_blocks_(options.comeback_blocks + 1),
      page_tables_(reservation(), block_bytes_) {
  if (source_->blocks_for_stream() < window_blocks_) {
    throw Error(EINVAL, "stream '" + name() + "': a comeback of " +
                            std::to_string(options.comeback_blocks) + " blocks needs " +
                            std::to_string(window_blocks_) + ", and its source guarantees " +
                            std::to_string(source_->blocks_for_stream()));
  }
  slots_.resize(window_blocks_);
  open();
}

InputStreamBase::~InputStreamBase() {
  const bool in_child = inherited();
  close();
  if (in_child) return;
  for (Slot& slot : slots_) {
    if (slot.block && move(slot.block, pool_.home(slot.block)) == 0) {
      source_->release(slot.index, slot.block);
    }
  }
  if (in_place_ != nullptr) in_place_->recall(base(), base() + reservation().bytes());
}

int InputStreamBase::move(Block block, std::byte* address) noexcept {
  return in_place_ != nullptr ? in_place_->place(block, address) : pool_.place(block, address);
}

void InputStreamBase::reclaim_page_tables(std::uint64_t floor) noexcept {
  std::byte* finished = base() + floor * block_bytes_;
  if (in_place_ != nullptr) finished = in_place_->lowest_placed(base(), finished);
  page_tables_.finished_below(finished);
}

std::uint64_t InputStreamBase::floor() const noexcept {
  return next_ > window_blocks_ ? next_ - window_blocks_ : 0;
}

Stream::Window InputStreamBase::window() const noexcept { return {floor(), next_}; }

bool InputStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes_;
  const Slot& slot = slot_of(index);
  if (slot.block && slot.index == index) {
    note_spurious_fault();
    return true;
  }
  if (access == Access::kWrite) return fail(EACCES, "a write to a stream that is read", offset);
  const auto length = source_->length();
  if (length && index * block_bytes_ >= *length) return serve_end(offset, *length);
  if (index < floor()) {
    return fail(EFAULT, "a read behind the window: raise the comeback (M)", offset);
  }
  if (index >= next_) {
    next_ = index + 1;
    if (!release_below(floor(), offset)) return false;
  }
  return place_block(index, offset);
}

bool InputStreamBase::place_block(std::uint64_t index, std::uint64_t offset) noexcept {
  const Source::Taken taken = source_->take(index, floor());
  if (!taken.status.ok()) return fail(taken.status.error, taken.status.cause, offset);
  if (!taken.block) {
    const auto length = source_->length();
    if (length) return serve_end(offset, *length);
    return fail(EIO, "the source ended without saying where", offset);
  }
  if (taken.bytes < block_bytes_) {
    std::byte* const start = pool_.where(taken.block);
    source_->fill(start + taken.bytes, start + block_bytes_, index * block_bytes_ + taken.bytes);
  }
  if (const int error = move(taken.block, base() + index * block_bytes_)) {
    source_->release(index, taken.block);
    return fail(error, kCannotMoveBlock, offset);
  }
  slot_of(index) = {taken.block, index};
  return true;
}

bool InputStreamBase::release_below(std::uint64_t floor, std::uint64_t offset) noexcept {
  const std::uint64_t placed_end = std::min(floor, released_ + window_blocks_);
  for (std::uint64_t index = released_; index < placed_end; ++index) {
    Slot& slot = slot_of(index);
    if (!slot.block || slot.index != index) continue;
    if (in_place_ == nullptr) {
      if (const int error = pool_.withdraw(slot.block))
        return fail(error, kCannotMoveBlock, offset);
    }
    source_->release(index, std::exchange(slot.block, Block{}));
  }
  released_ = std::max(released_, floor);
  reclaim_page_tables(released_);
  return true;
}

bool InputStreamBase::serve_end(std::uint64_t offset, std::uint64_t length) noexcept {
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t filler_offset = round_up(length, page);
  if (offset >= filler_offset + page) {
    LineBuffer<128> cause;
    cause.text("a read past the end of the data, which are ").number(length).text(" bytes long");
    return fail(ERANGE, cause.view(), offset);
  }
  if (filler_placed_) {
    note_spurious_fault();
    return true;
  }
  // Here the filler page begins where the last block ends, so there is no block to hold it.
  int error = 0;
  std::byte* const filler = os::map_memory(base() + filler_offset, page, &error);
  if (filler == nullptr) return fail(error, "no memory for the page after the end", offset);
  source_->fill(filler, filler + page, filler_offset);
  filler_placed_ = true;
  return true;
}

void InputStreamBase::prefault(std::uint64_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  const std::uint64_t first = offset / block_bytes_;
  const std::uint64_t last = (offset + bytes - 1) / block_bytes_;
  {
    std::lock_guard lock(mutex());
    const auto length = source_->length();
    const std::uint64_t end = length ? *length : reserved_bytes();
    check_prefault_range(name(), first, last, floor(), window_blocks_);
    if (offset + bytes > end) {
      throw Error(ERANGE, "stream '" + name() + "': cannot place " + std::to_string(bytes) +
                              " bytes at offset " + std::to_string(offset) + ": the data end at " +
                              std::to_string(end));
    }
    for (std::uint64_t index = first; index <= last; ++index) {
      const Slot& slot = slot_of(index);
      if (slot.block && slot.index == index) continue;
      if (!serve_locked(Access::kRead, std::max(offset, index * block_bytes_))) break;
    }
  }
  failure().throw_if_failed();
}

}  // namespace vortex
