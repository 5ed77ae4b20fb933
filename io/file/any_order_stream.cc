#include "io/file/any_order_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "io/file/own_pool.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/os/futex.h"
#include "vortex/os/memory.h"
#include "vortex/os/reservation.h"
#include "vortex/pool/block_memory.h"

namespace vortex::inline v0 {
namespace {

// The most that one instruction touches: two places, each over the border of two blocks.
constexpr std::size_t kMinKept = 4;
constexpr std::size_t kMaxCursors = 256;
constexpr std::size_t kMaxRequests = 256;
constexpr std::uint64_t kPageTableSpan = std::uint64_t{2} << 20;
constexpr char kNoMemory[] = "the system refuses memory for a block";

std::size_t kept_blocks(const FileReaderOptions& options) noexcept {
  return std::max(options.comeback_blocks + 1, kMinKept);
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

std::uint64_t address_space(std::uint64_t bytes, std::size_t block_bytes) noexcept {
  return round_up(bytes, block_bytes) + block_bytes;
}

// A process may have thousands of arrays, each of which could grow. While most of the address space
// is there, one gets what it asks for, then a part of what may go to those that ask for much, and
// then little, for others need some, too.
std::uint64_t room_to_grow(std::uint64_t length, std::uint64_t wanted) noexcept {
  constexpr std::uint64_t kPlenty = std::uint64_t{64} << 40;
  constexpr std::uint64_t kForLittle = std::uint64_t{16} << 40;
  constexpr std::uint64_t kForOthers = std::uint64_t{1} << 40;
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;
  constexpr std::uint64_t kPart = 16;
  const std::uint64_t left = Reservation::unreserved_bytes();
  if (left < kForOthers) return length;
  if (left < kForLittle) {
    wanted = std::min(wanted, kLittle);
  } else if (left < kPlenty) {
    wanted = std::min(wanted, std::max((left - kForLittle) / kPart, kLittle));
  }
  return std::max(length, wanted);
}

// A cursor is of use if it has its head and a block ahead; and walks come in pairs.
std::size_t cursors_for(const FileReaderOptions& options, std::size_t blocks) noexcept {
  const std::size_t kept = kept_blocks(options);
  const std::size_t beside = blocks > kept ? blocks - kept : 0;
  return std::min(std::max({beside / 2, options.cursors, std::size_t{2}}), kMaxCursors);
}

void count(std::atomic<std::uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::size_t AnyOrderStream::blocks_needed(const FileReaderOptions& options, std::size_t block_bytes,
                                          std::size_t unit_bytes, std::size_t write_behind) {
  const std::size_t group = RequestUnits::group(block_bytes, options.request_bytes, unit_bytes);
  const std::size_t cursors = std::max<std::size_t>(options.cursors, 1);
  // The last blocks touched may begin and end in the middle of a group.
  const std::size_t needed = kept_blocks(options) + cursors - 1 + 2 * (group - 1) +
                             (cursors * options.read_ahead + write_behind) * group;
  return std::max(needed, options.memory_bytes / block_bytes);
}

std::size_t AnyOrderStream::blocks_needed_for(std::uint64_t length, bool may_grow,
                                              std::size_t needed,
                                              std::size_t block_bytes) noexcept {
  if (may_grow) return needed;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(blocks_of_file(length, block_bytes), needed));
}

AnyOrderStream::AnyOrderStream(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                               const FileReaderOptions& options, bool register_pool,
                               const std::optional<ChangeOptions>& changes)
    : Stream(options.name.empty() ? layout->name() : options.name,
             {.bytes = address_space(
                  room_to_grow(*layout->length(), changes ? changes->reserve_bytes : 0),
                  pool.block_bytes()),
              .least_bytes = address_space(*layout->length(), pool.block_bytes())}),
      units_(pool, std::move(layout),
             {.request_bytes = options.request_bytes,
              .caching = options.caching,
              .register_pool = register_pool},
             changes ? RequestUnits::Use::kChanging : RequestUnits::Use::kReading),
      block_bytes_(pool.block_bytes()),
      max_depth_(options.read_ahead),
      announced_(options.cursors > 1 ? options.cursors : 0),
      kept_(kept_blocks(options)),
      quota_(units_.quota(
          blocks_needed_for(*units_.layout().length(), changes.has_value(),
                            blocks_needed(options, block_bytes_, units_.layout().unit_bytes(),
                                          changes ? changes->write_behind : 0),
                            block_bytes_))),
      held_(quota_.minimum()),
      cursors_(cursors_for(options, quota_.minimum())),
      transfers_(units_, std::min(quota_.minimum(), kMaxRequests)),
      changes_(changes ? std::make_unique<WriteBack>(units_, held_, transfers_, kept_) : nullptr),
      written_behind_((changes ? changes->write_behind : 0) * units_.group()) {
  open();
}

AnyOrderStream::~AnyOrderStream() {
  const bool in_child = inherited();
  close();
  if (in_child) return;
  BlockPool& pool = quota_.pool();
  transfers_.drain();
  if (changes_ != nullptr) write_last_changes();
  held_.for_each([&](HeldBlock& held) {
    if (!held.block) return;
    if (held.state == HeldBlock::State::kPlaced && take_away(held) != 0) pool.give_up(held.block);
    quota_.give_back(std::exchange(held.block, Block{}));
  });
}

AnyOrderStatistics AnyOrderStream::order_statistics() const noexcept {
  return {.cursors = begun_.load(std::memory_order_relaxed),
          .reread_bytes = transfers_.reread_bytes(),
          .drops = drops_.load(std::memory_order_relaxed),
          .unused = unused_.load(std::memory_order_relaxed)};
}

// ---- Faults.

bool AnyOrderStream::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes_;
  HeldBlock* const held = held_.find(index);
  if (held != nullptr && held->state == HeldBlock::State::kPlaced) {
    return serve_placed(*held, access, offset);
  }
  if (access == Access::kWrite && changes_ == nullptr) return refuse_write(offset);
  if (index >= transfers_.blocks()) return serve_end(access, offset);
  return serve_block(access, index, offset);
}

bool AnyOrderStream::handle_overrun(std::uint64_t offset) noexcept {
  return serve_end(Access::kUnknown, offset);
}

bool AnyOrderStream::refuse_write(std::uint64_t offset) noexcept {
  return fail(EACCES, "a write to a stream that is read", offset);
}

bool AnyOrderStream::serve_placed(HeldBlock& held, Access access, std::uint64_t offset) noexcept {
  held_.touch(held);
  // Where the processor does not tell, what can be read is being written.
  if (changes_ != nullptr && access != Access::kRead && !held.writable) {
    const Status status = changes_->let_change(held);
    return status.ok() || fail(status.error, status.cause, offset);
  }
  if (changes_ == nullptr && access == Access::kWrite && quota_.pool().aliases()) {
    return refuse_write(offset);
  }
  note_spurious_fault();
  return true;
}

bool AnyOrderStream::serve_end(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t page = os::page_bytes();
  const std::uint64_t filler_offset = round_up(transfers_.length(), page);
  const bool writes = access == Access::kWrite && changes_ != nullptr;
  if (writes || offset >= filler_offset + page) {
    LineBuffer<128> cause;
    cause.text(writes ? "a write" : "a read").text(" past the end of the data, which are ");
    cause.number(transfers_.length()).text(" bytes long");
    return fail(ERANGE, cause.view(), offset);
  }
  if (filler_placed_) {
    note_spurious_fault();
    return true;
  }
  // Here the page begins where the last block ends, so there is no block to hold it.
  if (const int error =
          reservation().place_zeros(base() + filler_offset, page, changes_ == nullptr)) {
    return fail(error, "no memory for the page after the end", offset);
  }
  filler_placed_ = true;
  return true;
}

bool AnyOrderStream::serve_block(Access access, std::uint64_t index,
                                 std::uint64_t offset) noexcept {
  refusal_ = 0;
  write_failure_ = {};
  just_left_ = kNoBlock;
  transfers_.collect();
  cursors_.tick();
  Cursor* const cursor = notice(index);
  HeldBlock* held = held_.find(index);
  if (held == nullptr) {
    const std::size_t most = cursor != nullptr ? blocks_to_border(*cursor, index) : 1;
    if (read_run(cursor, index, most, true) == 0) {
      if (stopping()) return fail(ECANCELED, "the stream was cancelled", offset);
      // There may be room when the next touch comes.
      if (!write_failure_.ok()) return refuse(write_failure_.error, write_failure_.cause, offset);
      return fail(refusal_ != 0 ? refusal_ : ENOMEM,
                  refusal_ != 0 ? cannot_move_block(refusal_) : kNoMemory, offset);
    }
    held = held_.find(index);
  } else if (held->cursor != HeldBlock::kNone) {
    --cursors_[std::exchange(held->cursor, HeldBlock::kNone)].ahead;
  }
  held_.touch(*held);
  if (cursor != nullptr) read_ahead(*cursor);
  if (changes_ != nullptr) write_behind();
  if (!transfers_.settle(*held)) return fail(ECANCELED, "the stream was cancelled", offset);
  if (held->error != 0) {
    const Status status = transfers_.failed_reading(*held);
    return fail(status.error, status.cause, offset);
  }
  if (refusal_ == 0) refusal_ = place(*held, access == Access::kWrite);
  return refusal_ == 0 || fail(refusal_, cannot_move_block(refusal_), offset);
}

void AnyOrderStream::take_from_sight(std::uint64_t offset) noexcept {
  HeldBlock* const held = held_.find(offset / block_bytes_);
  if (held != nullptr && held->state == HeldBlock::State::kPlaced) {
    // Its memory is where the disk finds it, so that a later write_changes() still can.
    transfers_.drain(*held);
    take_away(*held);
  } else if (held == nullptr && filler_placed_) {
    vacate(base() + round_up(transfers_.length(), os::page_bytes()), os::page_bytes());
    filler_placed_ = false;
  }
}

bool AnyOrderStream::clear_refused(std::uint64_t offset) noexcept {
  const HeldBlock* const held = held_.find(offset / block_bytes_);
  const bool placed = held != nullptr && held->state == HeldBlock::State::kPlaced;
  if (placed || offset >= transfers_.length()) return false;
  const std::uint64_t page = os::page_bytes();
  return vacate(base() + offset / page * page, page) == 0;
}

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
// touched if it is demanded; all others are read ahead.
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
    if (held_.free_count() == 0 && !(touched ? free_one_for_touch() : free_one_for(*cursor))) break;
    HeldBlock* held = hold(at);
    // The system gives no memory for one that was never used.
    if (held == nullptr && touched && free_one_for_touch()) held = hold(at);
    if (held == nullptr) break;
    if (!touched) {
      held->cursor = cursors_.id_of(*cursor);
      ++cursor->ahead;
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
  return true;
}

bool AnyOrderStream::free_one_for(const Cursor& cursor) noexcept {
  return drop_touched(kept_, false, false) || drop_ahead(&cursor, share(), false);
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
  if (held.cursor != HeldBlock::kNone) --cursors_[held.cursor].ahead;
  const std::uint64_t index = held.index;
  held_.release(held);
  reclaim_page_tables(index);
  return true;
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

// ---- Changes.

void AnyOrderStream::write_behind() noexcept {
  if (held_.ordered() <= kept_) return;
  std::size_t left = std::min(written_behind_, held_.ordered() - kept_);
  for (HeldBlock* held = held_.oldest(); left > 0; held = held_.next(*held), --left) {
    if (!held->dirty || held->under_way() || held->write_error != 0) continue;
    if (unit_in_use(held->index)) continue;
    if (!transfers_.has_room() || changes_->start(*held) != 0) return;
  }
}

// One of the last W lies in the unit, or a walk stands there.
bool AnyOrderStream::unit_in_use(std::uint64_t index) noexcept {
  const std::uint64_t begin = index / units_.group() * units_.group();
  const std::uint64_t end = begin + units_.group();
  if (just_left_ >= begin && just_left_ < end) return true;
  HeldBlock* held = held_.newest();
  for (std::size_t i = 0; i < kept_ && held != nullptr; ++i, held = held_.previous(*held)) {
    if (held->index >= begin && held->index < end) return true;
  }
  return cursors_.has_head_in(begin, end);
}

// Waits until the block has been written.
bool AnyOrderStream::write_now(HeldBlock& held) noexcept {
  if (!transfers_.settle(held)) return false;
  if (!held.dirty) return true;
  if (!transfers_.has_room() && !transfers_.settle_any()) return false;
  if (const int error = changes_->start(held)) {
    write_failure_ = {error, cannot_move_block(error)};
    return false;
  }
  if (!transfers_.settle(held)) return false;
  if (held.dirty) write_failure_ = transfers_.failed_writing(held);
  return !held.dirty;
}

void AnyOrderStream::write_changes(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  std::uint64_t since = 0;
  std::vector<std::uint64_t> blocks;
  {
    ServiceLock lock(*this);
    const std::uint64_t last = offset + std::min(bytes - 1, ~offset);
    changes_->look_again(offset / block_bytes_, last / block_bytes_ + 1);
    since = changes_->now();
    blocks = dirty_blocks(offset / block_bytes_, last / block_bytes_ + 1);
  }
  // Faults of other threads are served in between.
  std::optional<Error> first;
  const auto note = [&](auto step, std::uint64_t index) {
    try {
      ServiceLock lock(*this);
      (this->*step)(index, since);
    } catch (const Error& error) {
      if (!first) first = error;
    }
  };
  for (const std::uint64_t index : blocks) note(&AnyOrderStream::start_changed, index);
  for (const std::uint64_t index : blocks) note(&AnyOrderStream::await_changed, index);
  if (first) throw *first;
}

// Those of [begin, end) that are dirty or being written, in order.
std::vector<std::uint64_t> AnyOrderStream::dirty_blocks(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> result;
  held_.for_each([&](const HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || held.state == HeldBlock::State::kReading) return;
    if (held.index < begin || held.index >= end) return;
    if (held.dirty || held.under_way()) result.push_back(held.index);
  });
  std::sort(result.begin(), result.end());
  return result;
}

void AnyOrderStream::start_changed(std::uint64_t index, std::uint64_t since) {
  transfers_.collect();
  HeldBlock* const held = held_.find(index);
  if (held == nullptr || !held->dirty || held->under_way()) return;
  if (held->dirty_since > since || held->written_last > since) return;
  if (!transfers_.has_room()) transfers_.drain();
  if (const int error = changes_->start(*held)) {
    throw Error(error, "stream '" + name() + "': " + cannot_move_block(error));
  }
}

void AnyOrderStream::await_changed(std::uint64_t index, std::uint64_t since) {
  HeldBlock* held = held_.find(index);
  if (held == nullptr || held->state == HeldBlock::State::kReading) return;
  transfers_.drain(*held);
  // A write that was under way when the call began has failed.
  if (held->dirty && held->dirty_since <= since && held->written_last <= since) {
    start_changed(index, since);
    transfers_.drain(*held);
  }
  if (held->dirty && held->dirty_since <= since) {
    const Status status = transfers_.failed_writing(*held);
    throw Error(status.error, status.cause);
  }
}

void AnyOrderStream::write_last_changes() noexcept {
  changes_->look_again(0, transfers_.blocks());
  held_.for_each([&](HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || !held.dirty || held.under_way()) return;
    if (!transfers_.has_room()) transfers_.drain();
    changes_->start_unprotected(held);
  });
  transfers_.drain();
  std::uint64_t lost = 0;
  Status first;
  held_.for_each([&](const HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || !held.dirty) return;
    if (lost == 0) first = transfers_.failed_writing(held);
    lost += transfers_.bytes_of(held.index);
  });
  if (lost == 0) return;
  LineBuffer<768> line;
  line.text("vortex: stream '").text(name()).text("': up to ").number(lost);
  line.text(" changed bytes are lost: ").text(first.cause).text(": error ");
  line.number(static_cast<std::uint64_t>(first.error));
  write_line(line.view());
}

// ---- Growing and shrinking.

void AnyOrderStream::resize(std::uint64_t length, BlockFile& file) {
  if (length > reserved_bytes() || address_space(length, block_bytes_) > reserved_bytes()) {
    throw Error(EFBIG, "stream '" + name() + "': cannot grow to " + format_bytes(length) +
                           ": the reservation is for " +
                           format_bytes(reserved_bytes() - block_bytes_) + ": raise reserve_bytes");
  }
  ServiceLock lock(*this);
  const std::uint64_t before = transfers_.length();
  if (length == before) return;
  // The block at the border is put together anew, and those behind it go; nobody may touch them
  // meanwhile, nor the disk.
  transfers_.drain();
  take_away_from(std::min(length, before) / block_bytes_);
  transfers_.resize(length);
  try {
    file.truncate(file.begin() + length);
  } catch (...) {
    transfers_.resize(before);
    throw;
  }
  // A block may lie there now, and takes its place then.
  if (std::exchange(filler_placed_, false)) {
    const std::uint64_t page = os::page_bytes();
    vacate(base() + round_up(before, page), page);
  }
  cut_off(std::min(length, before));
}

void AnyOrderStream::take_away_from(std::uint64_t index) {
  held_.for_each([&](HeldBlock& held) {
    if (held.state != HeldBlock::State::kPlaced || held.index < index) return;
    if (const int error = take_away(held)) {
      throw Error(error, "stream '" + name() + "': " + cannot_move_block(error));
    }
  });
}

// Nothing is left of what lay behind `length`, where the file ends or went on before.
void AnyOrderStream::cut_off(std::uint64_t length) noexcept {
  for (Cursor& cursor : cursors_.all()) {
    if (!cursor.live || std::max(cursor.head, cursor.reach) < length / block_bytes_) continue;
    forget_ahead(cursor, 1, cursor.distance(cursor.reach));
    cursor.live = false;
  }
  const std::uint64_t border = length / block_bytes_;
  const auto kept = static_cast<std::size_t>(length % block_bytes_);
  held_.for_each([&](HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || held.index < border) return;
    if (held.index == border && kept != 0 && held.error == 0) {
      std::memset(quota_.pool().home(held.block) + kept, 0, block_bytes_ - kept);
      held.bytes = transfers_.bytes_of(border);
      return;
    }
    if (held.cursor != HeldBlock::kNone) --cursors_[held.cursor].ahead;
    const std::uint64_t index = held.index;
    held_.release(held);
    reclaim_page_tables(index);
  });
}

// ---- System calls.

void AnyOrderStream::prefault(std::uint64_t offset, std::size_t bytes, Access access) {
  if (bytes == 0) return;
  const std::uint64_t length = transfers_.length();
  if (offset > length || bytes > length - offset) {
    throw Error(ERANGE, "stream '" + name() + "': cannot place " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) + ": the data end at " +
                            std::to_string(length));
  }
  const std::uint64_t first = offset / block_bytes_;
  const std::uint64_t last = (offset + bytes - 1) / block_bytes_;
  if (last - first >= kept_) {
    throw Error(EINVAL, "stream '" + name() + "': the range to place spans " +
                            std::to_string(last - first + 1) + " blocks, and " +
                            std::to_string(kept_) + " stay: raise the comeback");
  }
  Failure failed;
  {
    ServiceLock lock(*this);
    forget_refusal();
    for (std::uint64_t index = first; index <= last; ++index) {
      HeldBlock* const held = held_.find(index);
      if (held != nullptr && held->state == HeldBlock::State::kPlaced &&
          (access == Access::kRead || held->writable)) {
        held_.touch(*held);
      } else if (!serve_locked(access, std::max(offset, index * block_bytes_))) {
        break;
      }
    }
    failed = failure();
  }
  failed.throw_if_failed();
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
    const std::size_t read = read_told(index, wanted);
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

// Requests up to `most` blocks from `index` on, which nobody has touched; returns how many.
std::size_t AnyOrderStream::read_told(std::uint64_t index, std::size_t most) noexcept {
  if (!transfers_.has_room()) return 0;
  std::array<HeldBlock*, kMaxPieces> run{};
  std::size_t found = 0;
  for (; found < most && held_.find(index + found) == nullptr; ++found) {
    if (held_.free_count() == 0 && !drop_touched(kept_, false, false)) break;
    HeldBlock* const held = hold(index + found);
    if (held == nullptr) break;
    held->state = HeldBlock::State::kReading;
    held_.rank_behind(*held, kept_);
    run[found] = held;
  }
  if (found > 0) transfers_.start_reading({run.data(), found});
  return found;
}

const std::byte* AnyOrderStream::home_of(const void* at) noexcept {
  std::lock_guard lock(mutex());
  const auto* const byte = static_cast<const std::byte*>(at);
  if (byte < base() || byte >= base() + reserved_bytes()) return nullptr;
  const auto offset = static_cast<std::uint64_t>(byte - base());
  const HeldBlock* const held = held_.find(offset / block_bytes_);
  if (held == nullptr || held->state != HeldBlock::State::kPlaced) return nullptr;
  BlockPool& pool = quota_.pool();
  return pool.aliases() ? pool.home(held->block) + offset % block_bytes_ : byte;
}

}  // namespace vortex::inline v0
