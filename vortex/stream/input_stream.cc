#include "vortex/input_stream.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"
#include "vortex/stream/block_window.h"
#include "vortex/stream/stream_calls.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

namespace {

AddressSpace space_for(const Source& source, std::size_t block_bytes,
                       const InputStreamOptions& options) {
  std::uint64_t needed = std::uint64_t{1} << 30;
  std::uint64_t wanted = kUnknownLengthReservation;
  if (const auto length = source.length()) {
    // Whole blocks, and a block more for the filler that follows the data.
    needed = detail::saturating_sum(detail::round_up(*length, block_bytes), block_bytes);
    wanted = needed;
  }
  if (options.reserve_bytes != 0) wanted = detail::round_up(options.reserve_bytes, block_bytes);
  const std::uint64_t least =
      options.least_reserve_bytes != 0 ? options.least_reserve_bytes : std::min(needed, wanted);
  return {.bytes = wanted, .least_bytes = std::min(least, wanted)};
}

}  // namespace

InputStreamBase::InputStreamBase(std::unique_ptr<Source> source, Options options)
    : Stream(options.name, space_for(*source, source->pool().block_bytes(), options)),
      source_(std::move(source)),
      window_(std::make_unique<BlockWindow>(
          name(), reservation(),
          BlockWindow::OtherSide{"source", source_->pool(), source_->blocks_for_stream(),
                                 Rights::kRead},
          options.comeback_blocks, options.stale_blocks)) {
  open();
}

InputStreamBase::~InputStreamBase() {
  if (!close()) return;
  window_->for_each_placed(
      [&](std::uint64_t index) { source_->release(index, window_->take_back(index)); });
  window_->vacate_all();
}

std::uint64_t InputStreamBase::readable_bytes(std::uint64_t offset) const {
  return vortex::readable_bytes(*this, reserved_bytes(), block_bytes(), offset);
}

const std::byte* InputStreamBase::home_of(const void* at) noexcept {
  if (inherited()) return nullptr;  // by a forked child, in which others may hold the lock
  std::lock_guard lock(mutex());
  return window_->home_of(at);
}

Stream::Window InputStreamBase::window() const noexcept {
  return {window_->floor(), window_->next()};
}

std::size_t InputStreamBase::block_bytes() const noexcept { return window_->block_bytes(); }

bool InputStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes();
  if (window_->placed(index) && !(access == Access::kWrite && window_->pool().aliases())) {
    note_spurious_fault();
    return true;
  }
  if (access == Access::kWrite) return fail(EACCES, "a write to a stream that is read", offset);
  const auto length = source_->length();
  if (length && index * block_bytes() >= *length) return serve_end(offset, *length);
  if (index < window_->floor()) {
    return fail_touch("a read behind the window: raise the comeback (M)", offset);
  }
  if ((index + 1) * block_bytes() > reserved_bytes()) return handle_overrun(offset);
  if (index >= window_->next()) {
    window_->move_on_to(index);
    if (!release_below(window_->floor(), offset)) return false;
  }
  return place_block(index, offset);
}

bool InputStreamBase::is_vacant(std::uint64_t index) const noexcept {
  const auto length = source_->length();
  return window_->is_vacant(index) && (index + 1) * block_bytes() <= reserved_bytes() &&
         (!length || index * block_bytes() < *length);
}

bool InputStreamBase::handle_overrun(std::uint64_t offset) noexcept {
  const auto length = source_->length();
  // Of data that go on behind the reservation the end has no place in it.
  const bool ends_here = length && *length <= std::min(offset, reserved_bytes());
  return ends_here ? serve_end(offset, *length) : Stream::handle_overrun(offset);
}

bool InputStreamBase::place_block(std::uint64_t index, std::uint64_t offset) noexcept {
  const Source::Taken taken = source_->take(index, window_->floor());
  if (!taken.status.ok()) return fail(taken.status.error, taken.status.cause, offset);
  if (!taken.block) {
    const auto length = source_->length();
    if (length) return serve_end(offset, *length);
    return fail(EIO, "the source ended without saying where", offset);
  }
  if (taken.bytes < block_bytes()) {
    std::byte* const start = window_->pool().where(taken.block);
    source_->fill(start + taken.bytes, start + block_bytes(), index * block_bytes() + taken.bytes);
  }
  if (const int error = window_->place(taken.block, index)) {
    source_->release(index, taken.block);
    return fail(error, cannot_move_block(error), offset);
  }
  return true;
}

bool InputStreamBase::release_below(std::uint64_t floor, std::uint64_t offset) noexcept {
  if (const int error = window_->leave_behind(floor))
    return fail(error, cannot_move_block(error), offset);
  const std::uint64_t placed_end = std::min(floor, released_ + window_->window_blocks());
  for (std::uint64_t index = released_; index < placed_end; ++index) {
    if (!window_->placed(index)) continue;
    if (const int error = window_->send_home(index))
      return fail(error, cannot_move_block(error), offset);
    source_->release(index, window_->forget(index));
  }
  released_ = std::max(released_, floor);
  window_->reclaim_page_tables(released_);
  return true;
}

bool InputStreamBase::serve_end(std::uint64_t offset, std::uint64_t length) noexcept {
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t filler_offset = detail::round_up(length, page);
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
  std::byte* const filler = base() + filler_offset;
  if (const int error = reservation().place_zeros(filler, page, true)) {
    return fail(error, "no memory for the page after the end", offset);
  }
  source_->fill(filler, filler + page, filler_offset);
  filler_placed_ = true;
  return true;
}

void InputStreamBase::prefault(std::uint64_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  {
    ServiceLock lock(*this);
    window_->require_within(offset, bytes, source_->length().value_or(reserved_bytes()),
                            "the data end");
    window_->for_each_missing(
        offset, bytes, [&](std::uint64_t missing) { return serve_locked(Access::kRead, missing); });
  }
  failure().throw_if_failed();
  // Placing the range may have found out where the data end.
  const auto length = source_->length();
  if (length && offset + bytes > *length) {
    throw Error(ERANGE, "stream '" + name() + "': the data end at byte " + std::to_string(*length) +
                            ", before " + std::to_string(offset + bytes));
  }
}

}}  // namespace vortex::v0
