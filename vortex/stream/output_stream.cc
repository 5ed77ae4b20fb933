#include "vortex/output_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/pool/block_memory.h"
#include "vortex/stream/block_window.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kNoEndYet = std::numeric_limits<std::uint64_t>::max();

}  // namespace

OutputStreamBase::OutputStreamBase(std::unique_ptr<Sink> sink, Options options)
    : Stream(options.name,
             {.bytes = options.reserve_bytes, .least_bytes = options.least_reserve_bytes}),
      sink_(std::move(sink)),
      window_(std::make_unique<BlockWindow>(
          name(), reservation(),
          BlockWindow::OtherSide{"sink", sink_->pool(), sink_->blocks_for_stream(),
                                 Rights::kReadWrite},
          options.comeback_blocks, options.stale_blocks)),
      gaps_(options.gaps) {
  open();
}

OutputStreamBase::~OutputStreamBase() {
  if (!close()) return;
  drop_all();
  window_->vacate_all();
  if (!finished_) sink_->abandon();
}

const std::byte* OutputStreamBase::home_of(const void* at) noexcept {
  if (inherited()) return nullptr;  // by a forked child, in which others may hold the lock
  std::lock_guard lock(mutex());
  return window_->home_of(at);
}

Stream::Window OutputStreamBase::window() const noexcept {
  return {window_->floor(), window_->next()};
}

std::size_t OutputStreamBase::block_bytes() const noexcept { return window_->block_bytes(); }

bool OutputStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes();
  if (finished_) return fail_touch("touched after finish()", offset);
  if (window_->placed(index)) {
    note_spurious_fault();
    return true;
  }
  if (index < window_->floor()) {
    return fail_touch("a touch behind the window: raise the comeback (L)", offset);
  }
  if (access == Access::kRead) {
    return fail_touch("a read of a block that was never written", offset);
  }
  if ((index + 1) * block_bytes() > reserved_bytes()) return handle_overrun(offset);
  if (index >= window_->next()) {
    window_->move_on_to(index);
    if (!hand_over_below(window_->floor(), kNoEndYet, offset)) return false;
  }
  return place_block(index, offset);
}

bool OutputStreamBase::is_vacant(std::uint64_t index) const noexcept {
  return !finished_ && (index + 1) * block_bytes() <= reserved_bytes() && window_->is_vacant(index);
}

bool OutputStreamBase::place_block(std::uint64_t index, std::uint64_t offset) noexcept {
  const Sink::Taken taken = sink_->take(index);
  if (!taken.status.ok()) return fail(taken.status.error, taken.status.cause, offset);
  if (gaps_ == Gaps::kZeros && !taken.zeros) {
    std::memset(window_->pool().where(taken.block), 0, block_bytes());
  }
  if (const int error = window_->place(taken.block, index)) {
    sink_->discard(taken.block);
    return fail(error, cannot_move_block(error), offset);
  }
  return true;
}

bool OutputStreamBase::hand_over_below(std::uint64_t floor, std::uint64_t length,
                                       std::uint64_t offset) noexcept {
  if (const int error = window_->leave_behind(floor))
    return fail(error, cannot_move_block(error), offset);
  const std::uint64_t placed_end = std::min(floor, handed_over_ + window_->window_blocks());
  while (handed_over_ < floor) {
    Status status;
    if (handed_over_ < placed_end && window_->placed(handed_over_)) {
      const std::uint64_t bytes = std::min<std::uint64_t>(
          block_bytes(), length - std::min(length, handed_over_ * block_bytes()));
      if (const int error = window_->send_home(handed_over_)) {
        return fail(error, cannot_move_block(error), offset);
      }
      status = sink_->complete(handed_over_, window_->forget(handed_over_), bytes);
      ++handed_over_;
    } else {
      const std::uint64_t first = handed_over_++;
      while (handed_over_ < placed_end && !window_->placed(handed_over_)) ++handed_over_;
      if (handed_over_ >= placed_end) handed_over_ = floor;
      status = sink_->skip(first, handed_over_ - first);
    }
    if (!status.ok()) return fail(status.error, status.cause, offset);
  }
  window_->reclaim_page_tables(handed_over_);
  return true;
}

void OutputStreamBase::drop_all() noexcept {
  window_->for_each_placed([&](std::uint64_t index) { sink_->discard(window_->take_back(index)); });
}

void OutputStreamBase::finish_bytes(std::uint64_t length) {
  {
    ServiceLock lock(*this);
    failure().throw_if_failed();
    if (finished_) throw Error(EALREADY, "stream '" + name() + "' is finished already");
    if (length > reserved_bytes()) {
      throw Error(EINVAL, "stream '" + name() + "': an end at " + std::to_string(length) +
                              " bytes lies beyond the " + std::to_string(reserved_bytes()) +
                              " that were reserved");
    }
    if (handed_over_ * block_bytes() > length) {
      throw Error(EINVAL, "stream '" + name() + "': an end at " + std::to_string(length) +
                              " bytes comes too late; " +
                              std::to_string(handed_over_ * block_bytes()) +
                              " bytes have been handed over already");
    }
    const std::uint64_t blocks = detail::units_for(length, block_bytes());
    if (hand_over_below(blocks, length, length)) {
      finished_ = true;
      drop_all();
      window_->vacate_all();
    }
  }
  // Whoever cancels now has nothing left to break off but the sink.
  if (const Failure failed = failure()) {
    if (finished_) sink_->abandon();
    failed.throw_if_failed();
  }
  // Outside the lock: the sink may wait for disks, and cancel() must be able to wake it.
  const Status status = sink_->finish(length);
  if (!status.ok()) {
    fail(status.error, status.cause, length);
    failure().throw_if_failed();
  }
}

void OutputStreamBase::prefault(std::uint64_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  {
    ServiceLock lock(*this);
    window_->require_within(offset, bytes, reserved_bytes(), "the reservation ends");
    window_->for_each_missing(offset, bytes, [&](std::uint64_t missing) {
      return serve_locked(Access::kWrite, missing);
    });
  }
  failure().throw_if_failed();
}

}}  // namespace vortex::v0
