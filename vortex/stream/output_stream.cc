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

struct OutputStreamBase::State {
  BlockWindow window;
  const Gaps gaps;
  std::uint64_t handed_over = 0;  // blocks below were completed or skipped
  bool finished = false;
};

OutputStreamBase::OutputStreamBase(std::unique_ptr<Sink> sink, Options options)
    : Stream(options.name,
             {.bytes = options.reserve_bytes, .least_bytes = options.least_reserve_bytes}),
      sink_(std::move(sink)),
      state_(new State{.window = BlockWindow(name(), reservation(),
                                             {"sink", sink_->pool(), sink_->in_place(),
                                              sink_->blocks_for_stream(), Rights::kReadWrite},
                                             options.comeback_blocks, options.stale_blocks),
                       .gaps = options.gaps}) {
  open();
}

OutputStreamBase::~OutputStreamBase() {
  const bool in_child = inherited();
  close();
  if (in_child) return;
  drop_all();
  state_->window.vacate_all();
  if (!state_->finished) sink_->abandon();
}

std::size_t OutputStreamBase::comeback_blocks() const noexcept {
  return state_->window.comeback_blocks();
}

StaleBlocks OutputStreamBase::stale_blocks() const noexcept {
  return state_->window.stale_blocks();
}

const std::byte* OutputStreamBase::home_of(const void* at) noexcept {
  std::lock_guard lock(mutex());
  return state_->window.home_of(at);
}

Stream::Window OutputStreamBase::window() const noexcept {
  BlockWindow& window = state_->window;
  return {window.floor(), window.next()};
}

std::size_t OutputStreamBase::block_bytes() const noexcept { return state_->window.block_bytes(); }

bool OutputStreamBase::handle_fault(Access access, std::uint64_t offset) noexcept {
  BlockWindow& window = state_->window;
  const std::uint64_t index = offset / block_bytes();
  if (state_->finished) return fail_touch("touched after finish()", offset);
  if (window.placed(index)) {
    note_spurious_fault();
    return true;
  }
  if (index < window.floor()) {
    return fail_touch("a touch behind the window: raise the comeback (L)", offset);
  }
  if (access == Access::kRead) {
    return fail_touch("a read of a block that was never written", offset);
  }
  if ((index + 1) * block_bytes() > reserved_bytes()) return handle_overrun(offset);
  if (index >= window.next()) {
    window.move_on_to(index);
    if (!hand_over_below(window.floor(), kNoEndYet, offset)) return false;
  }
  return place_block(index, offset);
}

bool OutputStreamBase::place_block(std::uint64_t index, std::uint64_t offset) noexcept {
  BlockWindow& window = state_->window;
  const Sink::Taken taken = sink_->take(index);
  if (!taken.status.ok()) return fail(taken.status.error, taken.status.cause, offset);
  if (state_->gaps == Gaps::kZeros && !taken.zeros) {
    std::memset(window.pool().where(taken.block), 0, block_bytes());
  }
  if (const int error = window.place(taken.block, index)) {
    sink_->discard(taken.block);
    return fail(error, cannot_move_block(error), offset);
  }
  return true;
}

bool OutputStreamBase::hand_over_below(std::uint64_t floor, std::uint64_t length,
                                       std::uint64_t offset) noexcept {
  BlockWindow& window = state_->window;
  std::uint64_t& handed_over = state_->handed_over;
  if (const int error = window.leave_behind(floor))
    return fail(error, cannot_move_block(error), offset);
  const std::uint64_t placed_end = std::min(floor, handed_over + window.window_blocks());
  while (handed_over < floor) {
    Status status;
    if (handed_over < placed_end && window.placed(handed_over)) {
      const std::uint64_t bytes = std::min<std::uint64_t>(
          block_bytes(), length - std::min(length, handed_over * block_bytes()));
      // The block's bytes behind the end of the data have to be filled, which is done at home.
      if (!window.in_place() || bytes < block_bytes()) {
        if (const int error = window.send_home(handed_over)) {
          return fail(error, cannot_move_block(error), offset);
        }
      }
      status = sink_->complete(handed_over, window.forget(handed_over), bytes);
      ++handed_over;
    } else {
      const std::uint64_t first = handed_over++;
      while (handed_over < placed_end && !window.placed(handed_over)) ++handed_over;
      if (handed_over >= placed_end) handed_over = floor;
      status = sink_->skip(first, handed_over - first);
    }
    if (!status.ok()) return fail(status.error, status.cause, offset);
  }
  window.reclaim_page_tables(handed_over);
  return true;
}

void OutputStreamBase::drop_all() noexcept {
  BlockWindow& window = state_->window;
  window.for_each_placed([&](std::uint64_t index) { sink_->discard(window.take_back(index)); });
}

void OutputStreamBase::finish_bytes(std::uint64_t length) {
  std::uint64_t& handed_over = state_->handed_over;
  {
    ServiceLock lock(*this);
    failure().throw_if_failed();
    if (state_->finished) throw Error(EALREADY, "stream '" + name() + "' is finished already");
    if (length > reserved_bytes()) {
      throw Error(EINVAL, "stream '" + name() + "': an end at " + std::to_string(length) +
                              " bytes lies beyond the " + std::to_string(reserved_bytes()) +
                              " that were reserved");
    }
    if (handed_over * block_bytes() > length) {
      throw Error(EINVAL, "stream '" + name() + "': an end at " + std::to_string(length) +
                              " bytes comes too late; " +
                              std::to_string(handed_over * block_bytes()) +
                              " bytes have been handed over already");
    }
    const std::uint64_t blocks = detail::units_for(length, block_bytes());
    if (hand_over_below(blocks, length, length)) {
      state_->finished = true;
      drop_all();
      state_->window.vacate_all();
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
  BlockWindow& window = state_->window;
  if (bytes == 0) return;
  {
    ServiceLock lock(*this);
    window.require_within(offset, bytes, reserved_bytes(), "the reservation ends");
    window.for_each_missing(offset, bytes, [&](std::uint64_t missing) {
      return serve_locked(Access::kWrite, missing);
    });
  }
  failure().throw_if_failed();
}

}}  // namespace vortex::v0
