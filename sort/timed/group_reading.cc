// What a group of readers reads ahead, and hands out.
#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "io/disk/disk.h"
#include "sort/merge/order_of_need.h"
#include "sort/timed/reader_group.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// A plan knows as many blocks as fit into the memory so many times; the end of an order is not read
// as it would be if it went on.
constexpr std::size_t kHorizon = 3;

}  // namespace

// The first byte of a block of a unit that belongs to the reader's part.
std::uint64_t ReaderGroup::offset_of(const Reader& reader, std::uint64_t unit,
                                     std::size_t block) const noexcept {
  return std::min(std::max(reader.begin, unit * unit_bytes_ + block * block_bytes_), reader.end);
}

// Of a reader whose rate nobody knows: the mean of the others'.
double ReaderGroup::guessed_rate() const noexcept {
  double sum = 0;
  std::size_t known = 0;
  for (const auto& reader : readers_) {
    if (reader == nullptr || reader->pace.rate() <= 0) continue;
    sum += reader->pace.rate();
    ++known;
  }
  return known != 0 ? sum / static_cast<double>(known) : static_cast<double>(unit_bytes_);
}

// The deadlines of the next block of each reader are a heap, as forecasts are (Barve and Vitter,
// sections 4.1 and 6.2). The first one of each is in the plan, whenever it is needed.
void ReaderGroup::make_plan() {
  const double now = this->now();
  const double guess = guessed_rate();
  const auto count = static_cast<std::uint32_t>(readers_.size());
  std::size_t unheld = pool_.block_count();
  for (const Buffer& buffer : buffers_) {
    if (buffer.state == State::kHeld) unheld -= buffer.end - buffer.begin;
  }
  const std::size_t ahead = std::max(unheld / blocks_of_unit(), disks_.size() + 1);
  std::size_t left = kHorizon * ahead;
  double foretold = now;
  struct Forecast {
    std::uint64_t blocks = 0;  // told
    double first_due = 0;
    double due = 0;
  };
  std::vector<Forecast> forecasts(count);
  const auto advance = [&](std::uint32_t slot) -> std::optional<NeededBlock> {
    if (readers_[slot] == nullptr) return {};
    Reader& reader = *readers_[slot];
    Forecast& forecast = forecasts[slot];
    const std::uint64_t index = reader.next + forecast.blocks;
    if (index >= std::min(reader.end_unit, reader.failed_unit)) return {};
    if (left == 0 && forecast.blocks > 0) return {};
    left -= left > 0;
    const std::uint64_t next = offset_of(reader, reader.next);
    if (forecast.blocks++ == 0) {
      forecast.first_due = reader.pace.due(next, now, guess, unit_bytes_);
      // Who waits comes before those who do not go on.
      forecast.due = reader.pace.asked() && there(slot) == kNone ? 0 : forecast.first_due;
    } else {
      forecast.due =
          forecast.first_due + reader.pace.between(next, offset_of(reader, index), guess);
    }
    if (left > 0) foretold = std::max(foretold, forecast.due);
    return NeededBlock{slot, disk_number(reader.layout->locate(index, unit_bytes_).disk), index};
  };
  const std::vector<NeededBlock> order = foretold_blocks(
      {}, count, advance,
      [&](std::uint32_t a, std::uint32_t b) { return forecasts[a].due < forecasts[b].due; });
  plan_ =
      ReadingPlan(kind_, order, count, ahead, static_cast<unsigned>(disks_.size()), block_times_);
  stale_ = false;
  owed_.clear();
  unreleased_.clear();
  given_back_ = unheld % blocks_of_unit();
  taken_ = 0;
  most_taken_ = ahead;
  foretold_ns_ = foretold;
  ++statistics_.plans;
  adopt_buffers();
}

// What was read for the plan before: the new one knows it, or it goes.
void ReaderGroup::adopt_buffers() noexcept {
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    Buffer& buffer = buffers_[i];
    if (buffer.state != State::kReading && buffer.state != State::kReady) continue;
    if (ReadingPlan::Entry* const entry = plan_->find(buffer.reader, buffer.unit)) {
      entry->buffer = i;
    } else if (buffer.state == State::kReady) {
      ++statistics_.flushed;
      free(i);
    }
  }
}

void ReaderGroup::carry_out() {
  if (stale_ || taken_ >= most_taken_) make_plan();
  PrefetchPolicy& policy = plan_->policy();
  for (PrefetchAction action = policy.next(); action.kind != PrefetchAction::Kind::kNothing;
       action = policy.next()) {
    action.kind == PrefetchAction::Kind::kDrop ? drop(action) : fetch(action);
  }
  read_owed();
  while (under_way_.empty() && !owed_.empty() && drop_held()) read_owed();
}

void ReaderGroup::fetch(const PrefetchAction& action) {
  ReadingPlan::Entry& entry = *plan_->find(action.block.run, action.block.index);
  PrefetchPolicy& policy = plan_->policy();
  entry.granted = true;
  if (action.block.index < readers_[action.block.run]->next) {
    policy.fetched(action.position);
    policy.taken(action.position);
    unreleased_.push_back(action.position);
  } else if (entry.buffer == kNone) {
    owed_.push_back(action.block);
  } else if (buffers_[entry.buffer].state == State::kReady) {
    policy.fetched(action.position);
  }
}

void ReaderGroup::drop(const PrefetchAction& action) noexcept {
  ReadingPlan::Entry& entry = *plan_->find(action.block.run, action.block.index);
  entry.granted = false;
  ++statistics_.flushed;
  free(entry.buffer);
}

// The policy grants no more than there is memory for beside what readers hold. Where none is free,
// it has a unit that the policy has not asked for yet, or that is being read for nobody. So it does
// where the system gives less memory than was asked for.
void ReaderGroup::read_owed() noexcept {
  std::size_t read_now = 0;
  refused_ = 0;
  while (read_now < owed_.size()) {
    // Units at the end of a file are shorter than others.
    const bool is_room = !free_.empty() && free_blocks() >= blocks_of_unit();
    if (is_room && read(free_.back(), owed_[read_now])) {
      ++read_now;
    } else if (!make_room()) {
      break;
    }
  }
  if (read_now == 0) return;
  owed_.erase(owed_.begin(), owed_.begin() + static_cast<std::ptrdiff_t>(read_now));
  for (Disk* const disk : disks_) disk->send();
}

bool ReaderGroup::make_room() noexcept {
  std::uint32_t last = kNone;
  Position last_position = 0;
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].state != State::kReady) continue;
    const ReadingPlan::Entry& entry = *plan_->find(buffers_[i].reader, buffers_[i].unit);
    if (entry.granted || (last != kNone && entry.position < last_position)) continue;
    last = i;
    last_position = entry.position;
  }
  if (last == kNone) return false;
  ++statistics_.flushed;
  free(last);
  return true;
}

// Begins to read into the last buffer that is free. False: the system refuses its memory.
bool ReaderGroup::read(std::uint32_t index, const NeededBlock& needed) noexcept {
  Buffer& buffer = buffers_[index];
  Reader& reader = *readers_[needed.run];
  const auto bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(unit_bytes_, reader.end - needed.index * unit_bytes_));
  const std::size_t blocks = detail::units_for(bytes, block_bytes_);
  for (buffer.begin = buffer.end = 0; buffer.end < blocks; ++buffer.end) {
    const BlockGrant taken = quota_.try_take();
    refused_ = taken.error;
    if (refused_ != 0) {
      while (buffer.end > 0) quota_.give_back(buffer.blocks[--buffer.end]);
      return false;
    }
    buffer.blocks[buffer.end] = taken.block;
  }
  free_.pop_back();
  buffer.state = State::kReading;
  buffer.reader = needed.run;
  buffer.unit = needed.index;
  plan_->find(needed.run, needed.index)->buffer = index;
  under_way_.push_back(index);
  ++statistics_.reads;
  statistics_.peak_blocks = std::max(statistics_.peak_blocks, quota_.held());
  reads_.start(buffer.read, *reader.layout,
               {.unit = needed.index, .unit_bytes = unit_bytes_, .begin = 0, .bytes = bytes},
               std::span(buffer.blocks).first(buffer.end), &buffer.pieces, true);
  return true;
}

void ReaderGroup::settle_ended() {
  for (std::size_t i = under_way_.size(); i-- > 0;) {
    const std::uint32_t buffer = under_way_[i];
    if (!buffers_[buffer].read.request.done()) continue;
    under_way_[i] = under_way_.back();
    under_way_.pop_back();
    settle(buffer);
  }
}

void ReaderGroup::settle(std::uint32_t index) {
  Buffer& buffer = buffers_[index];
  Reader& reader = *readers_[buffer.reader];
  const Request& request = buffer.read.request;
  const int error = BlockTransfers::error_before(request, request.bytes);
  if (error != 0 && buffer.unit < reader.failed_unit) {
    const Status status =
        reads_.failed(*reader.layout, buffer.read.place, buffer.read.stopped_at(), error);
    reader.failed_unit = buffer.unit;
    reader.error = status.error;
    reader.cause = status.cause;
    stale_ = true;
  }
  ReadingPlan::Entry* const entry = plan_->find(buffer.reader, buffer.unit);
  if (error != 0 || entry == nullptr || buffer.unit >= reader.failed_unit) return free(index);
  buffer.state = State::kReady;
  if (entry->granted) plan_->policy().fetched(entry->position);
}

void ReaderGroup::free(std::uint32_t index) noexcept {
  Buffer& buffer = buffers_[index];
  if (ReadingPlan::Entry* const entry = plan_->find(buffer.reader, buffer.unit)) {
    if (entry->buffer == index) entry->buffer = kNone;
  }
  while (buffer.begin < buffer.end) quota_.give_back(buffer.blocks[buffer.begin++]);
  buffer.state = State::kFree;
  free_.push_back(index);
}

// Where readers that hold units and do not go on have all the memory, one of them keeps the block
// that it shows alone: the others of that unit are read once more.
bool ReaderGroup::drop_held() noexcept {
  for (Buffer& buffer : buffers_) {
    if (buffer.state != State::kHeld || buffer.end - buffer.begin < 2) continue;
    Reader& reader = *readers_[buffer.reader];
    reader.begin = offset_of(reader, buffer.unit, buffer.begin + 1);
    reader.next = buffer.unit;
    while (buffer.begin + 1 < buffer.end) quota_.give_back(buffer.blocks[--buffer.end]);
    ++statistics_.flushed;
    stale_ = true;
    return true;
  }
  return false;
}

// The first block that the reader holds.
void ReaderGroup::give_back(Reader& reader) noexcept {
  Buffer& buffer = buffers_[reader.held];
  quota_.give_back(buffer.blocks[buffer.begin++]);
  if (buffer.begin == buffer.end) free(std::exchange(reader.held, kNone));
  if (++given_back_ < blocks_of_unit() || unreleased_.empty()) return;
  given_back_ -= blocks_of_unit();
  plan_->policy().released(unreleased_.back());
  unreleased_.pop_back();
}

// Frees what is there for the reader, and not held by it. A new plan follows.
void ReaderGroup::forget(std::uint32_t slot) noexcept {
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].state == State::kReady && buffers_[i].reader == slot) free(i);
  }
}

std::uint32_t ReaderGroup::there(std::uint32_t slot) noexcept {
  const ReadingPlan::Entry* const entry = plan_ ? plan_->find(slot, readers_[slot]->next) : nullptr;
  if (entry == nullptr || entry->buffer == kNone) return kNone;
  return buffers_[entry->buffer].state == State::kReady ? entry->buffer : kNone;
}

// Whether what next() returns or throws is there. Sees to it that it will be.
bool ReaderGroup::look(std::uint32_t slot) {
  settle_ended();
  Reader& reader = *readers_[slot];
  const auto has_answer = [&] {
    return reader.next >= std::min(reader.end_unit, reader.failed_unit) || there(slot) != kNone;
  };
  if (has_answer()) return true;
  if (!reader.pace.asked()) {
    reader.pace.asks(offset_of(reader, reader.next), now());
    if (reader.pace.started()) ++reader.statistics.late;
    const ReadingPlan::Entry* const entry = plan_ ? plan_->find(slot, reader.next) : nullptr;
    stale_ |= entry == nullptr || entry->buffer == kNone;
  }
  carry_out();
  settle_ended();
  stale_ |= under_way_.empty();
  return has_answer() || (refused_ != 0 && under_way_.empty());
}

std::span<const std::byte> ReaderGroup::next(std::uint32_t slot) {
  Lock lock(mutex_);
  Reader& reader = *readers_[slot];
  if (reader.held != kNone) give_back(reader);
  const double asked = now();
  bool waited = false;
  while (reader.held == kNone && !look(slot)) {
    waited = true;
    if (under_way_.empty()) continue;
    const ReadingPlan::Entry* const own = plan_->find(slot, reader.next);
    await(lock, own != nullptr && own->buffer != kNone ? own->buffer : under_way_.front());
  }
  if (waited && reader.pace.started()) {
    reader.statistics.waited_ns += static_cast<std::uint64_t>(now() - asked);
  }
  if (reader.held == kNone) {
    const std::uint32_t buffer = there(slot);
    if (buffer == kNone && reader.next < std::min(reader.end_unit, reader.failed_unit)) {
      lacks_memory(reader);
    }
    if (buffer == kNone && reader.next < reader.end_unit) throw Error(reader.error, reader.cause);
    if (buffer == kNone) return {};
    take(slot, buffer, asked);
  }
  const Buffer& buffer = buffers_[reader.held];
  const std::uint64_t begin = offset_of(reader, buffer.unit, buffer.begin);
  const std::uint64_t block = buffer.unit * unit_bytes_ + buffer.begin * block_bytes_;
  const std::span shown(pool_.home(buffer.blocks[buffer.begin]) + (begin - block),
                        offset_of(reader, buffer.unit, buffer.begin + 1) - begin);
  ++reader.statistics.blocks;
  try {
    carry_out();
  } catch (const std::bad_alloc&) {  // the next call tries again
    stale_ = true;
  }
  return shown;
}

bool ReaderGroup::ready(std::uint32_t slot) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t held = readers_[slot]->held;
  if (held != kNone && buffers_[held].begin + 1 < buffers_[held].end) return true;
  return look(slot);
}

void ReaderGroup::take(std::uint32_t slot, std::uint32_t index, double asked) noexcept {
  Reader& reader = *readers_[slot];
  const ReadingPlan::Entry entry = *plan_->find(slot, reader.next);
  Buffer& buffer = buffers_[index];
  buffer.state = State::kHeld;
  reader.held = index;
  if (entry.granted) {
    plan_->policy().taken(entry.position);
    unreleased_.push_back(entry.position);
  }
  const double now = this->now();
  const std::uint64_t begin = offset_of(reader, reader.next++);
  stale_ |= !reader.pace.started();  // until now it was to begin at once
  reader.pace.asks(begin, asked);
  reader.pace.takes(begin, now);
  ++taken_;
  // It reads faster than was foretold.
  stale_ |= reader.next < reader.end_unit && plan_->end(slot) <= reader.next &&
            reader.pace.due(offset_of(reader, reader.next), now, guessed_rate(), unit_bytes_) <
                foretold_ns_;
  // A part that begins behind blocks of its first unit.
  while (offset_of(reader, buffer.unit, buffer.begin + 1) == begin) give_back(reader);
}

// Until a disk has done something: with luck, what is being read into the buffer.
void ReaderGroup::await(Lock& lock, std::uint32_t index) {
  Disk& disk = *buffers_[index].read.place.disk;
  const std::uint32_t seen = disk.progress();
  if (buffers_[index].read.request.done()) return;
  lock.unlock();
  disk.send();
  disk.await_progress(seen);
  lock.lock();
}

void ReaderGroup::fill() {
  Lock lock(mutex_);
  for (;;) {
    settle_ended();
    carry_out();
    if (under_way_.empty()) return;
    await(lock, under_way_.front());
  }
}

}}  // namespace vortex::v0
