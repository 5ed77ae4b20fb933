#include "vortex/input_stream.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/move_failure.h"

namespace vortex::inline v0 {
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
    : WindowStream(options.name, reservation_for(*source, source->pool().block_bytes(), options),
                   {"source", source->pool(), source->in_place(), source->blocks_for_stream(),
                    Rights::kRead},
                   options.comeback_blocks, options.stale_blocks),
      source_(std::move(source)) {
  open();
}

InputStreamBase::~InputStreamBase() {
  const bool in_child = inherited();
  close();
  if (in_child) return;
  for_each_placed([this](std::uint64_t index) { source_->release(index, take_back(index)); });
  vacate_all();
}

bool InputStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes();
  if (placed(index) && !(access == Access::kWrite && pool().aliases())) {
    note_spurious_fault();
    return true;
  }
  if (access == Access::kWrite) return fail(EACCES, "a write to a stream that is read", offset);
  const auto length = source_->length();
  if (length && index * block_bytes() >= *length) return serve_end(offset, *length);
  if (index < floor()) {
    return fail(EFAULT, "a read behind the window: raise the comeback (M)", offset);
  }
  if ((index + 1) * block_bytes() > reserved_bytes()) return handle_overrun(offset);
  if (index >= next()) {
    move_on_to(index);
    if (!release_below(floor(), offset)) return false;
  }
  return place_block(index, offset);
}

bool InputStreamBase::handle_overrun(std::uint64_t offset) noexcept {
  const auto length = source_->length();
  return length ? serve_end(offset, *length) : WindowStream::handle_overrun(offset);
}

bool InputStreamBase::place_block(std::uint64_t index, std::uint64_t offset) noexcept {
  const Source::Taken taken = source_->take(index, floor());
  if (!taken.status.ok()) return fail(taken.status.error, taken.status.cause, offset);
  if (!taken.block) {
    const auto length = source_->length();
    if (length) return serve_end(offset, *length);
    return fail(EIO, "the source ended without saying where", offset);
  }
  if (taken.bytes < block_bytes()) {
    std::byte* const start = pool().where(taken.block);
    source_->fill(start + taken.bytes, start + block_bytes(), index * block_bytes() + taken.bytes);
  }
  if (const int error = place(taken.block, index)) {
    source_->release(index, taken.block);
    return fail(error, kCannotMoveBlock, offset);
  }
  return true;
}

bool InputStreamBase::release_below(std::uint64_t floor, std::uint64_t offset) noexcept {
  if (const int error = leave_behind(floor)) return fail(error, kCannotMoveBlock, offset);
  const std::uint64_t placed_end = std::min(floor, released_ + window_blocks());
  for (std::uint64_t index = released_; index < placed_end; ++index) {
    if (!placed(index)) continue;
    if (!in_place()) {
      if (const int error = send_home(index)) return fail(error, kCannotMoveBlock, offset);
    }
    source_->release(index, forget(index));
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
  {
    ServiceLock lock(*this);
    const std::uint64_t end = source_->length().value_or(reserved_bytes());
    place_range(offset, bytes, end, "the data end", Access::kRead);
  }
  failure().throw_if_failed();
  // Placing the range may have found out where the data end.
  const auto length = source_->length();
  if (length && offset + bytes > *length) {
    throw Error(ERANGE, "stream '" + name() + "': the data end at byte " + std::to_string(*length) +
                            ", before " + std::to_string(offset + bytes));
  }
}

}  // namespace vortex::inline v0
