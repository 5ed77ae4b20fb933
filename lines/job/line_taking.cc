// How a sort of lines takes records into memory.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "lines/fields/key_bytes.h"
#include "lines/job/line_job.h"
#include "lines/record/record_keys.h"
#include "vortex/error.h"
#include "vortex/thread/activity.h"

namespace vortex { inline namespace v0 {

namespace {

// A key of a long record that is longer is not made beside the memory.
constexpr std::size_t kMostKeyOfByte = 16;
// What one may take beyond the memory.
constexpr std::size_t kMostBeside = std::size_t{8} << 20;

// Fewer are taken by one thread before others are awake.
constexpr std::size_t kLeastRecords = 64;

// Batches of one thread behind what all threads left to it: there may be more like it.
constexpr unsigned kBatchesAlone = 256;

// What is worth a thread, of records and of what names them.
constexpr std::size_t kLeastPart = std::size_t{64} << 10;
std::size_t bytes_with_name(std::string_view record) noexcept {
  return record.size() + sizeof(std::string_view);
}

// The short records in front, up to so many bytes.
std::span<const std::string_view> short_ones(std::span<const std::string_view> records,
                                             std::size_t bytes) noexcept {
  std::size_t count = 0;
  for (std::size_t sum = 0; count < records.size() && sum < bytes; ++count) {
    if (records[count].size() > kLongRecord) break;
    sum += bytes_with_name(records[count]);
  }
  return records.first(count);
}

// Whether two threads would have enough to do.
bool fill_two_parts(std::span<const std::string_view> records) noexcept {
  std::size_t bytes = 0;
  for (const std::string_view record : records) {
    bytes += bytes_with_name(record);
    if (bytes >= 2 * kLeastPart) return true;
  }
  return false;
}

// Parts of so many bytes each, and one record more.
std::vector<std::span<const std::string_view>> divide_records(
    std::span<const std::string_view> records, std::size_t bytes) {
  std::vector<std::span<const std::string_view>> parts;
  while (!records.empty()) {
    parts.push_back(short_ones(records, bytes));
    records = records.subspan(parts.back().size());
  }
  return parts;
}

}  // namespace

void LineJob::take(std::span<const std::string_view> records) {
  context_.note_user();
  batch_begin_ = records_;
  const bool are_many = !pieces_.empty() && !first_->is_limited() &&
                        records.size() >= kLeastRecords && fill_two_parts(records);
  while (records_ - batch_begin_ < records.size()) {
    const auto left = records.subspan(records_ - batch_begin_);
    if (are_many && batches_alone_ == 0 && take_together(left)) continue;
    if (batches_alone_ > 0) --batches_alone_;
    take_batch(left);
  }
  note_filled();
}

// The first of the records, by one thread.
void LineJob::take_batch(std::span<const std::string_view> records) {
  const WorkSpan span(SpanKind::kTake);
  // What cannot be cut is a run, since a sorted index is not sorted again.
  if (first_->is_time_to_cut(*arenas_[filling_])) make_room({});
  const auto batch = records.first(std::max<std::size_t>(records_together(records), 1));
  if (!order_.has_keys) {
    for (const std::string_view record : batch) {
      if (first_->is_behind({}, record)) {
        ++records_;
        continue;
      }
      if (way_of(record.size(), record.size()) == LongLines::Way::kWithOthers ||
          !stored_apart([&] { long_lines_->take({}, record); })) [[likely]] {
        take_with_key({}, record);
        continue;
      }
      ++records_;
    }
  } else if (batch.front().size() > kLongRecord) {
    take_long(batch.front());
  } else {
    make_keys(*line_order_.keys, batch, keys_);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!first_->is_behind(keys_.key(i), batch[i])) {
        take_with_key(keys_.key(i), batch[i]);
      } else {
        ++records_;
      }
    }
  }
}

// The first of the records by all threads, where these have enough to do. False: none was taken.
bool LineJob::take_together(std::span<const std::string_view> records) {
  const std::uint64_t before = records_;
  const auto some = short_ones(records, pieces_.size() * piece_bytes_);
  std::size_t bytes = 0;
  for (const std::string_view record : some) bytes += bytes_with_name(record);
  const std::size_t most = std::min(pieces_.size(), bytes / std::min(kLeastPart, piece_bytes_));
  if (most < 2) return false;
  const auto parts = divide_records(some, bytes / most + 1);
  team_->run(parts.size(), [&](std::size_t i) {
    const WorkSpan span(SpanKind::kTake);
    pieces_[i]->take(parts[i]);
  });
  std::size_t count = 0;
  while (count < parts.size() && pieces_[count++]->is_all()) {
  }
  const RecordPiece& last = *pieces_[count - 1];
  if (last.is_full()) {
    // Keys are longer than was expected.
    piece_bytes_ = std::max(bytes / most * last.records() / parts[count - 1].size() / 4 * 3,
                            std::size_t{4} << 10);
  } else if (!last.is_all()) {
    batches_alone_ = kBatchesAlone;
  }
  put_pieces(count);
  return records_ != before;
}

void LineJob::take_with_key(std::string_view key, std::string_view record) {
  // Keys of short records are long where they are made of something else.
  const bool is_long = key.size() > kLongRecord;
  if (is_long && take_apart(key, record)) [[unlikely]] {
    ++records_;
    return;
  }
  if (!recent_ || !recent_->contains(order_.has_keys ? key : record, record)) {
    const bool may_be_too_long = is_long || record.size() > kLongRecord;
    if (may_be_too_long) expect_room_for(key, record);
    while (!arenas_[filling_]->push(key, record)) [[unlikely]] {
        make_room_for(record);
        if (may_be_too_long) expect_room_for(key, record);
      }
    if (recent_) recent_->note(arenas_[filling_]->newest());
  }
  ++records_;
}

// The record is to lie with the others, in a run if need be. One without a key may lie in memory as
// long as all may fit there.
void LineJob::expect_room_for(std::string_view key, std::string_view record) const {
  if (fits_ && !order_.has_keys) return;
  if (plan_.most_runs(stored_bytes(key, record, order_.has_keys)) < 2) refuse(record);
}

// Long records are kept apart where not everything fits in memory, or may not, and the record could
// not be merged then. Who wants runs compressed wants little space taken, and where no folder takes
// a file the memory may hold everything.
LongLines::Way LineJob::way_of(std::size_t key_bytes, std::size_t record_bytes) {
  LongLines::Way way = long_lines_->way_of(key_bytes, record_bytes);
  if (way == LongLines::Way::kWithOthers || !keeps_long_apart_ ||
      plan_.compression == RunCompression::kAlways) {
    return LongLines::Way::kWithOthers;
  }
  if (fits_ && order_.input_decides) {
    // What is shorter, with its key, can be merged: a record by half, a key by a quarter.
    way = long_lines_->way_of(key_bytes, record_bytes, plan_.longest_merged / 2);
    if (way == LongLines::Way::kWithOthers) return way;
  } else if (fits_ &&
             stored_bytes(key_bytes, record_bytes, order_.has_keys) <= plan_.longest_merged) {
    return LongLines::Way::kWithOthers;
  }
  keeps_long_apart_ = long_lines_->open();
  return keeps_long_apart_ ? way : LongLines::Way::kWithOthers;
}

// Stores a record that is kept apart. Returns false where it is the first, cannot be stored, and
// all records may fit in memory: then none is kept apart from now on.
template <typename Store>
bool LineJob::stored_apart(const Store& store) {
  const bool is_first = long_lines_->empty();
  try {
    store();
    return true;
  } catch (const Error& error) {
    if (!fits_ || !is_first || error.code().value() == ECANCELED) throw;
  }
  keeps_long_apart_ = false;
  return false;
}

// Takes a record that is not to lie in memory, or only another in its place. The key is shorter
// then, and may lie behind the record in free room.
bool LineJob::take_apart(std::string_view key, std::string_view record) {
  switch (way_of(key.size(), record.size())) {
    case LongLines::Way::kWithOthers:
      return false;
    case LongLines::Way::kApart:
      return stored_apart([&] { long_lines_->take(key, record); });
    case LongLines::Way::kStandIn:
      break;
  }
  if (recent_ && recent_->contains(key, record)) return true;
  std::string_view stand_in;
  if (!stored_apart([&] { stand_in = long_lines_->take_for_stand_in(record); })) return false;
  while (!arenas_[filling_]->push(key, stand_in)) make_room_for(stand_in);
  if (recent_) recent_->note(arenas_[filling_]->newest());
  return true;
}

// A key may be several times as long as its record: it is made in the arena, where both stay.
void LineJob::take_long(std::string_view record) {
  if (long_lines_->needs_keys() || way_of(record.size(), record.size()) != LongLines::Way::kApart ||
      !stored_apart([&] { long_lines_->take({}, record); })) {
    while (!push_long(record)) {
      if (take_beside(record)) break;
      make_room_for(record);
    }
  }
  ++records_;
}

// False, and the record lies where it did or in free room: there is none for its key, too.
bool LineJob::push_long(std::string_view& record) {
  LineArena& arena = *arenas_[filling_];
  const std::span<char> room = arena.free_room();
  if (room.size() < record.size() + 2 * LineArena::kPushRoom) return false;
  char* const place = room.data() + LineArena::kPushRoom;
  if (record.data() != place) std::memmove(place, record.data(), record.size());
  record = {place, record.size()};
  KeyBatch key(room.subspan(LineArena::kPushRoom + record.size())
                   .first(room.size() - record.size() - 2 * LineArena::kPushRoom));
  try {
    make_keys(*line_order_.keys, {&record, 1}, key);
  } catch (const KeyRoomFull&) {
    return false;
  }
  if (first_->is_behind(key.key(0), record) || take_apart(key.key(0), record)) return true;
  if (recent_ && recent_->contains(key.key(0), record)) return true;
  expect_room_for(key.key(0), record);
  arena.push_in_place(record.size(), key.key(0).size());
  if (recent_) recent_->note(arena.newest());
  return true;
}

// Takes a record apart, whose key is made beside the memory where that would hold little more if
// the arena were empty. False: the record stays where it is.
bool LineJob::take_beside(std::string_view record) {
  const std::span<const char> room = arenas_[filling_]->free_room();
  if (arenas_.size() > 1 || room.size() < memory_->size() / 2 || room.size() < record.size() ||
      way_of(record.size(), record.size()) == LongLines::Way::kWithOthers) {
    return false;
  }
  // What is free has been touched in vain, but for the record, which lies there or elsewhere.
  give_pages_back(holds(record) ? room.subspan(static_cast<std::size_t>(
                                      record.data() + record.size() - room.data()))
                                : room);
  std::optional<RawMemory> beside;
  try {
    beside.emplace(std::min(kMostKeyOfByte * record.size() + kLongRecord,
                            room.size() - record.size() + kMostBeside),
                   PageKind::kSmall);
  } catch (const Error&) {
    return false;  // the arena may do
  }
  KeyBatch key({beside->data(), beside->size()});
  try {
    make_keys(*line_order_.keys, {&record, 1}, key);
  } catch (const KeyRoomFull&) {
    return false;
  }
  return take_apart(key.key(0), record);
}

void LineJob::forget_recent() noexcept {
  if (recent_) recent_->forget();
  for (const auto& piece : pieces_) piece->forget();
}

void LineJob::begin_texts() {
  constexpr std::size_t kTableShare = 64;  // of the arena
  const bool finds_equal = order_.unique || order_.counted;
  if (finds_equal) recent_.emplace(plan_.arena_bytes / kTableShare, order_);
  pieces_.clear();
  text_bytes_ = piece_bytes_ = plan_.text_bytes;
  const RecordKeys* const keys = line_order_.keys.get();
  if (keys != nullptr && !keys->appended_by_any_thread()) return;
  const auto threads = std::min<std::size_t>(team_->threads(), plan_.texts_at_once);
  try {
    while (threads > 1 && pieces_.size() < threads) {
      pieces_.push_back(std::make_unique<RecordPiece>(plan_.text_bytes, keys));
      if (finds_equal) pieces_.back()->make_table(order_, plan_.table_bytes);
    }
  } catch (const std::bad_alloc&) {
    pieces_.clear();  // one thread takes everything
  }
}

LineJob::TakenTexts LineJob::take(std::span<const ScatteredText> texts,
                                  const RecordFraming& framing) {
  context_.note_user();
  batch_begin_ = records_;
  team_->run(texts.size(), [&](std::size_t i) {
    const WorkSpan span(SpanKind::kTake);
    pieces_[i]->read(texts[i], framing);
  });
  // What is not all of a text ends what is taken.
  std::size_t count = 0;
  TakenTexts taken;
  while (count < texts.size()) {
    const RecordPiece& piece = *pieces_[count++];
    taken.bytes += piece.text_bytes();
    if (!piece.is_all()) break;
  }
  const RecordPiece& last = *pieces_[count - 1];
  if (taken.bytes == 0 || !(last.is_all() || last.is_full())) batches_alone_ = kBatchesAlone;
  put_pieces(count);
  taken.records = records_ - batch_begin_;
  // Records of all lengths fill a part of their room.
  if (taken.records != 0) {
    const std::uint64_t fitting = taken.bytes / taken.records * (last.most_records() / 4 * 3);
    text_bytes_ = static_cast<std::size_t>(std::min<std::uint64_t>(fitting, plan_.text_bytes));
  }
  note_filled();
  return taken;
}

// The records of the first `count` pieces go into arenas.
void LineJob::put_pieces(std::size_t count) {
  if (recent_ && !first_->is_limited()) {
    team_->run(count, [&](std::size_t i) {
      const WorkSpan span(SpanKind::kTake);
      pieces_[i]->leave_out_known();
    });
  }
  for (std::size_t i = 0; i < count;) {
    const std::size_t together = put_together(i, count);
    if (together == 0) push_all(*pieces_[i]);
    i += std::max<std::size_t>(together, 1);
  }
}

// Puts the records of pieces [first, end) into the arena by all threads, as far as it has room for
// all of a piece; none where the first of all records are wanted. Returns how many pieces.
std::size_t LineJob::put_together(std::size_t first, std::size_t end) {
  if (first_->is_limited()) return 0;
  LineArena& arena = *arenas_[filling_];
  places_.clear();
  for (std::size_t i = first; i < end; ++i) {
    const RecordPiece& piece = *pieces_[i];
    const auto place = arena.reserve(piece.records(), piece.stored_bytes());
    if (!place) break;
    places_.push_back(*place);
    records_ += piece.found();
  }
  team_->run(places_.size(), [&](std::size_t i) {
    const WorkSpan span(SpanKind::kTake);
    pieces_[first + i]->put(arena, places_[i]);
  });
  return places_.size();
}

void LineJob::push_all(const RecordPiece& piece) {
  const WorkSpan span(SpanKind::kTake);
  if (first_->is_time_to_cut(*arenas_[filling_])) make_room({});
  const std::uint64_t before = records_;
  for (std::size_t i = 0; i < piece.records(); ++i) {
    records_ = before + piece.place(i);
    if (first_->is_behind(piece.key(i), piece.record(i))) continue;
    take_with_key(piece.key(i), piece.record(i));
  }
  records_ = before + piece.found();
}

void LineJob::note_filled() {
  const std::span<const char> free = arenas_[filling_]->free_room();
  warmer_->note(free.data(), free.data() + free.size());
}

}}  // namespace vortex::v0
