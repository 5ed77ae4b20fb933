// The part of AnyOrderStream that reads: walks, what is read ahead for them, whose memory is taken.
#include "io/array/any_order_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "vortex/os/reservation.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

namespace {

void count(std::atomic<std::uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// ---- Cursors.

Cursor* AnyOrderStream::notice(std::uint64_t index) noexcept {
  if (Cursor* const cursor = cursors_.follow(index)) {
    move(*cursor, index);
    return cursor;
  }
  // Whoever touches the beginning of a file for the first time usually reads all of it.
  if (index == 0 && !transfers_.was_read_before(0)) return &begin_cursor(0, true, max_depth_);
  const CursorSet::Beginning beginning = cursors_.beginning_at(index);
  if (beginning == CursorSet::Beginning::kNone) {
    // Walks that were announced begin anywhere, most of them upwards.
    if (cursors_.live() >= announced_ || transfers_.was_read_before(index)) return nullptr;
    return &begin_cursor(index, true, max_depth_);
  }
  const bool forward = beginning == CursorSet::Beginning::kForward;
  return &begin_cursor(index, forward, std::min<std::size_t>(1, max_depth_));
}

void AnyOrderStream::move(Cursor& cursor, std::uint64_t index) noexcept {
  // Blocks that are jumped over were read ahead in vain.
  forget_ahead(cursor, 1, cursor.distance(index) - 1);
  just_left_ = cursor.head;
  cursors_.step(cursor, index, max_depth_);
}

Cursor& AnyOrderStream::begin_cursor(std::uint64_t index, bool forward,
                                     std::size_t depth) noexcept {
  // One that was thought to go upwards and goes downwards is still the same.
  Cursor* const wrong = forward ? nullptr : cursors_.unmoved_at(index + 1);
  Cursor& cursor = wrong != nullptr ? *wrong : cursors_.place_for_new();
  if (cursor.live) forget_ahead(cursor, 1, cursor.distance(cursor.reach));
  cursors_.begin(cursor, index, forward, depth);
  if (wrong == nullptr) count(begun_);
  return cursor;
}

// Blocks in front of the head, at these distances, are nobody's from now on.
void AnyOrderStream::forget_ahead(Cursor& cursor, std::int64_t from, std::int64_t to) noexcept {
  const std::uint32_t id = cursors_.id_of(cursor);
  for (std::int64_t at = from; at <= to && cursor.ahead > 0; ++at) {
    HeldBlock* const held = held_.find(cursor.block_at(at));
    if (held == nullptr || held->cursor != id) continue;
    held->cursor = HeldBlock::kNone;
    --cursor.ahead;
    held_.neglect(*held);
  }
}

// ---- Reading.

// Blocks from `index` on, in the cursor's direction, to the border of the unit or of the file.
std::size_t AnyOrderStream::blocks_to_border(const Cursor& cursor,
                                             std::uint64_t index) const noexcept {
  const std::size_t within = static_cast<std::size_t>(index % units_.group());
  if (!cursor.forward) return within + 1;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(units_.group() - within, transfers_.blocks() - index));
}

// Blocks that each active cursor may have read ahead, where the blocks touched last are their
// heads.
std::size_t AnyOrderStream::share() const noexcept {
  const std::size_t active = std::max<std::size_t>(cursors_.active(), 1);
  const std::size_t kept = std::max(kept_, active);
  const std::size_t beside = held_.capacity() > kept ? held_.capacity() - kept : 0;
  return std::max<std::size_t>(beside / active, 1);
}

void AnyOrderStream::read_ahead(Cursor& cursor) noexcept {
  if (cursor.depth == 0) return;
  const std::size_t most = share();
  const std::uint64_t group = units_.group();
  const std::uint64_t unit = cursor.head / group;
  const std::uint64_t goal =
      cursor.forward ? std::min(transfers_.blocks(), (unit + cursor.depth + 1) * group) - 1
                     : (unit - std::min<std::uint64_t>(unit, cursor.depth)) * group;
  const std::int64_t last = cursor.distance(goal);
  while (cursor.distance(cursor.reach) < last) {
    const std::uint64_t next = cursor.block_at(cursor.distance(cursor.reach) + 1);
    if (held_.find(next) != nullptr) {
      cursor.reach = next;
      continue;
    }
    if (cursor.ahead >= most) return;
    const std::size_t rest = blocks_to_border(cursor, next);
    // A request in pieces is slower than a whole one later on.
    if (cursor.ahead > 0 && rest > most - cursor.ahead) return;
    const std::size_t read = read_run(&cursor, next, std::min(rest, most - cursor.ahead), false);
    if (read == 0) return;
    cursor.reach = cursor.block_at(cursor.distance(next) + static_cast<std::int64_t>(read) - 1);
  }
}

// Requests up to `most` blocks from `index` on, within a unit; returns how many. The first is
// touched if it is demanded; all others are read ahead for the cursor, or because it has been said
// that they will be needed.
std::size_t AnyOrderStream::read_run(Cursor* cursor, std::uint64_t index, std::size_t most,
                                     bool demanded) noexcept {
  if (!transfers_.has_room() && (!demanded || !transfers_.settle_any())) return 0;
  std::array<HeldBlock*, kMaxPieces> run{};
  std::size_t found = 0;
  const bool forward = cursor == nullptr || cursor->forward;
  for (; found < most; ++found) {
    const std::uint64_t at = forward ? index + found : index - found;
    const bool touched = demanded && found == 0;
    if (!touched && held_.find(at) != nullptr) break;
    if (held_.free_count() == 0 && !(touched ? free_one_for_touch() : free_one_ahead(cursor)))
      break;
    HeldBlock* held = hold(at);
    // The system gives no memory for one that was never used.
    if (held == nullptr && touched && free_one_for_touch()) held = hold(at);
    if (held == nullptr) break;
    if (!touched && cursor != nullptr) {
      held->cursor = cursors_.id_of(*cursor);
      ++cursor->ahead;
    } else if (!touched) {
      held_.rank_behind(*held, kept_);
    }
    held->state = HeldBlock::State::kReading;
    run[found] = held;
  }
  if (found == 0) return 0;
  if (!forward) std::reverse(run.begin(), run.begin() + static_cast<std::ptrdiff_t>(found));
  transfers_.start_reading({run.data(), found});
  if (demanded && cursor != nullptr) {
    const std::uint64_t end = cursor->block_at(static_cast<std::int64_t>(found) - 1);
    if (cursor->distance(end) > cursor->distance(cursor->reach)) cursor->reach = end;
  }
  return found;
}

void AnyOrderStream::will_need(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t length = transfers_.length();
  if (offset >= length || bytes == 0) return;
  const std::uint64_t last = (offset + std::min(bytes, length - offset) - 1) / block_bytes_;
  ServiceLock lock(*this);
  forget_refusal();
  if (failed() || stopping()) return;
  transfers_.collect();
  const std::size_t most = most_told();
  std::size_t begun = 0;
  for (std::uint64_t index = offset / block_bytes_; index <= last && begun < most;) {
    if (HeldBlock* const held = held_.find(index)) {
      // Not to be dropped for the rest of the range.
      if (held->cursor == HeldBlock::kNone && !held_.among_newest(*held, kept_)) {
        held_.rank_behind(*held, kept_);
      }
      ++index;
      ++begun;
      continue;
    }
    const std::uint64_t border = (index / units_.group() + 1) * units_.group();
    const std::size_t wanted =
        std::min<std::size_t>(most - begun, std::min(border, last + 1) - index);
    const std::size_t read = read_run(nullptr, index, wanted, false);
    if (read == 0) return;
    begun += read;
    index += read;
  }
}

// Where the file is whole in memory, so is what will be needed.
std::size_t AnyOrderStream::most_told() const noexcept {
  if (held_.capacity() >= transfers_.blocks()) return held_.capacity();
  return held_.capacity() - kept_;
}

// ---- Memory.

// A block of memory for block `index` of the file. Null: the system refuses it.
HeldBlock* AnyOrderStream::hold(std::uint64_t index) noexcept {
  HeldBlock* const held = held_.hold(index);
  if (held == nullptr || held->block) return held;
  const BlockGrant taken = quota_.try_take();
  if (taken.error == 0) {
    held->block = taken.block;
    return held;
  }
  held_.release(*held);
  return nullptr;
}

bool AnyOrderStream::free_one_for_touch() noexcept {
  // The block that is touched counts, too.
  while (!drop_touched(kept_ - 1, false, false) && !drop_touched(kept_ - 1, false, true) &&
         !drop_ahead(nullptr, 0, true) && !drop_touched(kept_ - 1, true, true)) {
    // Blocks that are being read for walks that are over can be dropped when the disk is done with
    // it.
    if (refusal_ != 0 || !transfers_.busy() || !transfers_.settle_any()) return false;
  }
  // Once the stream is cancelled, writes that nobody waits for keep all requests.
  return transfers_.has_room();
}

bool AnyOrderStream::free_one_ahead(const Cursor* cursor) noexcept {
  return drop_touched(kept_, false, false) ||
         (cursor != nullptr && drop_ahead(cursor, share(), false));
}

// Drops the block touched longest ago, unless it is one of the last `keep`. A dirty one has to be
// written for that.
bool AnyOrderStream::drop_touched(std::size_t keep, bool heads, bool dirty) noexcept {
  if (dirty && !heads && changes_ == nullptr) return false;
  std::size_t newer = held_.ordered();
  for (HeldBlock* held = held_.oldest(); held != nullptr && newer-- > keep;
       held = held_.next(*held)) {
    if (held->state == HeldBlock::State::kReading) continue;
    const std::uint64_t index = held->index;
    if (!heads && (index == just_left_ || cursors_.has_head_in(index, index + 1))) continue;
    if (changes_ != nullptr) changes_->look_again(*held);
    if ((held->dirty || held->under_way()) && !(dirty && write_now(*held))) continue;
    return drop(*held);
  }
  return false;
}

// Drops a block read ahead for another cursor than `keeper` that has more than it is allowed; idle
// cursors are allowed nothing.
bool AnyOrderStream::drop_ahead(const Cursor* keeper, std::size_t allowed, bool wait) noexcept {
  Cursor* victim = nullptr;
  const auto excess = [&](const Cursor& cursor) {
    const std::size_t limit = cursors_.idle(cursor) ? 0 : allowed;
    return cursor.ahead > limit ? cursor.ahead - limit : 0;
  };
  for (Cursor& cursor : cursors_.all()) {
    if (!cursor.live || &cursor == keeper || excess(cursor) == 0) continue;
    const auto rank = [&](const Cursor& one) { return std::pair(cursors_.idle(one), excess(one)); };
    if (victim == nullptr || rank(*victim) < rank(cursor)) victim = &cursor;
  }
  return victim != nullptr && drop_farthest(*victim, wait);
}

bool AnyOrderStream::drop_farthest(Cursor& cursor, bool wait) noexcept {
  const std::uint32_t id = cursors_.id_of(cursor);
  for (std::int64_t at = cursor.distance(cursor.reach); at > 0; --at) {
    HeldBlock* const held = held_.find(cursor.block_at(at));
    if (held == nullptr || held->cursor != id) continue;
    if (held->state == HeldBlock::State::kReading && (!wait || !transfers_.settle(*held)))
      return false;
    cursor.reach = cursor.block_at(at - 1);
    return drop(*held);
  }
  return false;
}

bool AnyOrderStream::drop(HeldBlock& held) noexcept {
  if (held.state == HeldBlock::State::kPlaced) {
    if (const int error = take_away(held)) {
      refusal_ = error;
      return false;
    }
    count(drops_);
  } else {
    count(unused_);
  }
  let_go(held);
  return true;
}

void AnyOrderStream::let_go(HeldBlock& held) noexcept {
  if (held.cursor != HeldBlock::kNone) --cursors_[held.cursor].ahead;
  const std::uint64_t index = held.index;
  held_.release(held);
  reclaim_page_tables(index);
}

int AnyOrderStream::place(HeldBlock& held, bool to_change) noexcept {
  BlockPool& pool = quota_.pool();
  std::byte* const home = pool.home(held.block);
  std::memset(home + held.bytes, 0, block_bytes_ - held.bytes);
  std::byte* const address = base() + held.index * block_bytes_;
  // For blocks that move, protection costs more than a stray write into what is read.
  const bool protect = !to_change && (changes_ != nullptr || pool.aliases());
  const auto try_to_place = [&] {
    return protect ? pool.place_to_read(held.block, address) : pool.place(held.block, address);
  };
  int error = try_to_place();
  // A page of the place answers with an error that has passed.
  if (error == EEXIST && vacate(address, block_bytes_) == 0) error = try_to_place();
  if (error != 0) return error;
  held.state = HeldBlock::State::kPlaced;
  if (to_change) changes_->note_placed(held);
  return 0;
}

int AnyOrderStream::take_away(HeldBlock& held) noexcept {
  const int error = quota_.pool().withdraw_from_readers(
      held.block, held.writable || held.watched ? Rights::kReadWrite : Rights::kRead);
  if (error != 0) return error;
  held.state = HeldBlock::State::kReady;
  held.writable = false;
  return 0;
}

// The tables that addressed small blocks go when nothing is placed in their whole span.
void AnyOrderStream::reclaim_page_tables(std::uint64_t index) noexcept {
  if (block_bytes_ >= kPageTableSpan) return;
  const std::uint64_t begin = index * block_bytes_ / kPageTableSpan * kPageTableSpan;
  const std::uint64_t end = std::min(begin + kPageTableSpan, reserved_bytes());
  if (filler_placed_ && end > transfers_.length()) return;
  for (std::uint64_t at = begin / block_bytes_; at * block_bytes_ < end; ++at) {
    const HeldBlock* const other = held_.find(at);
    if (other != nullptr && other->state == HeldBlock::State::kPlaced) return;
  }
  vacate(base() + begin, static_cast<std::size_t>(end - begin));
}

}}  // namespace vortex::v0
