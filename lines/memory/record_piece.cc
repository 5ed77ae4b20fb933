#include "lines/memory/record_piece.h"

#include <algorithm>
#include <cstring>

namespace vortex { inline namespace v0 {

namespace {

// Records that are shorter on average fill the room for them before their text ends.
constexpr std::size_t kBytesOfRecord = 16;

}  // namespace

// Keys have room for more than most of them take, from the beginning: it is not made by a thread
// that would keep it.
RecordPiece::RecordPiece(std::size_t bytes, const RecordKeys* keys)
    : keys_(keys),
      most_key_bytes_(bytes + bytes / 2),
      room_(std::make_unique_for_overwrite<char[]>(bytes + 2 * kLongRecord)),
      found_(bytes / kBytesOfRecord + 1) {
  if (keys_ != nullptr) batch_.room(most_key_bytes_);
}

// A text that lies in several pieces is copied.
std::string_view RecordPiece::in_one(const ScatteredText& text) noexcept {
  if (text.parts.size() == 1) return text.parts.front();
  char* to = room_.get();
  for (const std::string_view part : text.parts) {
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  return {room_.get(), text.bytes};
}

// Returns how many of the first records have keys that are not long.
std::size_t RecordPiece::make_keys() {
  // Of few records at a time, as their keys may be long.
  constexpr std::size_t kMostTogether = 512;
  batch_.clear();
  std::uint64_t bytes = 0;
  for (std::size_t made = 0; made < records_;) {
    if (bytes > most_key_bytes_) {
      is_full_ = true;
      return made;
    }
    const auto left = all_.subspan(made, records_ - made);
    append_keys(*keys_, left.first(std::min(records_together(left), kMostTogether)), batch_);
    for (; made < batch_.keys(); ++made) {
      const std::size_t key_bytes = batch_.key(made).size();
      if (key_bytes > kLongRecord) {
        is_full_ = false;  // the record ends it, not the room
        return made;
      }
      bytes += key_bytes;
    }
  }
  return records_;
}

void RecordPiece::read(const ScatteredText& text, const RecordFraming& framing) {
  const std::string_view all = in_one(text);
  const FramedRecords found = split_records(framing, all, true, found_);
  is_full_ = found.bytes < all.size();
  all_ = std::span<const std::string_view>(found_).first(found.records);
  take_short();
  text_bytes_ = found.bytes;
  if (records_ < found.records) {
    text_bytes_ = static_cast<std::uint64_t>(found_[records_].data() - all.data());
  }
  is_all_ = text_bytes_ == all.size();
}

void RecordPiece::take(std::span<const std::string_view> records) {
  is_full_ = false;
  all_ = records;
  take_short();
  is_all_ = records_ == records.size();
}

// Up to the first record that is long, or has a long key.
void RecordPiece::take_short() {
  const auto is_long = [](std::string_view record) { return record.size() > kLongRecord; };
  records_ =
      static_cast<std::size_t>(std::find_if(all_.begin(), all_.end(), is_long) - all_.begin());
  if (records_ < all_.size()) is_full_ = false;  // a long one ends it
  known_left_out_ = false;
  if (keys_ != nullptr) records_ = make_keys();
  found_count_ = records_;
  stored_bytes_ = 0;
  for (std::size_t i = 0; i < records_; ++i) stored_bytes_ += stored_bytes_of(i);
}

std::uint64_t RecordPiece::stored_bytes_of(std::size_t index) const noexcept {
  return vortex::stored_bytes(key(index), record(index), keys_ != nullptr);
}

void RecordPiece::make_table(const StoredOrder& order, std::size_t most_bytes) {
  recent_.emplace(most_bytes, order);
  left_.reserve(found_.size() + found_.size() / 2);
}

void RecordPiece::leave_out_known() {
  if (!recent_ || recent_->passes(records_)) return;
  left_.clear();
  for (std::size_t i = 0; i < records_; ++i) {
    if (recent_->contains(sorted_by(i), record(i))) {
      stored_bytes_ -= stored_bytes_of(i);
    } else {
      left_.push_back(static_cast<std::uint32_t>(i));
    }
  }
  records_ = left_.size();
  known_left_out_ = true;
}

void RecordPiece::put(const LineArena& arena, LineArena::Place place) noexcept {
  for (std::size_t i = 0; i < records_; ++i) {
    arena.put(place, key(i), record(i));
    if (known_left_out_) recent_->note(sorted_by(i), record(i), *place.index);
  }
}

}}  // namespace vortex::v0
