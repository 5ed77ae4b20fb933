#include "lines/runs/long_lines.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "lines/record/record_keys.h"
#include "vortex/error.h"
#include "vortex/thread/of_thread.h"

namespace vortex { inline namespace v0 {

namespace {

// A long record takes at least this share of the memory; the places of all of them take no more.
constexpr std::uint64_t kShare = 64;
constexpr std::uint64_t kLeastLong = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostIndexBytes = std::uint64_t{4} << 20;
// The room of longer records is given back, for it is beside the memory of the sort.
constexpr std::size_t kMostKept = std::size_t{64} << 10;

void replace_bytes(std::span<char> text, const std::array<char, 256>& map) noexcept {
  for (char& c : text) c = map[static_cast<unsigned char>(c)];
}

void keep_little(std::string& room) {
  if (room.capacity() > kMostKept) std::string().swap(room);
}

std::size_t bytes_of_piece(std::uint64_t bytes, std::uint64_t at) noexcept {
  return static_cast<std::size_t>(std::min<std::uint64_t>(bytes - at, CheckedTexts::kPieceBytes));
}

bool is_full(int error) noexcept { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

void LongLines::StoredText::read_whole(std::string& room) const {
  room.resize(static_cast<std::size_t>(bytes));
  texts->read(*file, offset, bytes, 0, room);
}

// Whoever is compared with many others has its first piece read once.
std::string_view LongLines::Buffer::piece(const StoredText& of, std::uint64_t from,
                                          const std::array<char, 256>* map) {
  const auto to = std::span(room).first(bytes_of_piece(of.bytes, from));
  if (text == of && at == from && byte_map == map) return {to.data(), to.size()};
  text = {};
  of.texts->read(*of.file, of.offset, of.bytes, from, to);
  if (map != nullptr) replace_bytes(to, *map);
  text = of;
  at = from;
  byte_map = map;
  return {to.data(), to.size()};
}

class LongLines::Text {
 public:
  explicit Text(std::string_view text) noexcept : bytes_(text.size()), memory_(text) {}
  Text(const StoredText& stored, Buffer& buffer,
       const std::array<char, 256>* byte_map = nullptr) noexcept
      : bytes_(stored.bytes), stored_(stored), buffer_(&buffer), byte_map_(byte_map) {}

  std::uint64_t bytes() const noexcept { return bytes_; }
  // The bytes from there on, where a piece begins: a piece, or up to the end; valid until a call
  // for others.
  std::string_view piece(std::uint64_t at) const {
    if (buffer_ != nullptr) return buffer_->piece(stored_, at, byte_map_);
    return memory_.substr(static_cast<std::size_t>(at), bytes_of_piece(bytes_, at));
  }
  // All of them, read into `room` if they are not in memory.
  std::string_view whole(std::string& room) const {
    if (buffer_ == nullptr) return memory_;
    stored_.read_whole(room);
    return room;
  }

 private:
  std::uint64_t bytes_;
  std::string_view memory_;
  StoredText stored_;
  Buffer* buffer_ = nullptr;
  const std::array<char, 256>* byte_map_ = nullptr;
};

LongLines::LongLines(const StoredOrder& order, std::optional<char> delimiter,
                     const std::array<char, 256>* byte_map, std::uint64_t memory_bytes,
                     std::vector<std::string> folders, const SortWatch& watch)
    : order_(order),
      delimiter_(delimiter),
      byte_map_(byte_map),
      least_bytes_(std::max(memory_bytes / kShare, kLeastLong)),
      most_entries_(static_cast<std::size_t>(std::min(memory_bytes / kShare, kMostIndexBytes) /
                                             sizeof(Entry))),
      folders_(std::move(folders)),
      watch_(watch) {
  files_.reserve(folders_.size());  // who reads one does not wait for another
}

void LongLines::take(std::string_view key, std::string_view record) {
  watch_.expect_going();
  if (!needs_keys()) key = {};
  if (entries_.capacity() == 0) entries_.reserve(most_entries_);
  Entry entry{.key_bytes = key.size(), .record_bytes = record.size()};
  const std::string_view sorted_by = needs_keys() ? key : record;
  const std::span<char> prefix = std::span(entry.prefix).first(std::min(sorted_by.size(), kPrefix));
  std::copy_n(sorted_by.data(), prefix.size(), prefix.data());
  if (byte_map_ != nullptr) replace_bytes(prefix, *byte_map_);
  entry.offset = store(key.size() <= kPrefix ? std::string_view() : key, record);
  entry.file = static_cast<std::uint32_t>(files_.size() - 1);
  entries_.push_back(entry);
}

// The delimiter, and the place. Where whole keys are made, it is as long as a record from which
// none is made before it is compared.
std::string_view LongLines::take_for_stand_in(std::string_view record) {
  watch_.expect_going();
  Place place{.file = 0, .offset = store({}, record), .bytes = record.size()};
  place.file = files_.size() - 1;
  const std::size_t least = order_.whole_keys != nullptr ? kLongRecord + 1 : 0;
  stand_in_.assign(std::max(1 + sizeof place, least), *delimiter_);
  std::memcpy(stand_in_.data() + 1, &place, sizeof place);
  ++stand_ins_;
  return stand_in_;
}

// Whatever a disk returns, it is a place in a file.
LongLines::Place LongLines::place_of(std::string_view stand_in) const {
  Place place;
  if (stand_in.size() > sizeof place) std::memcpy(&place, stand_in.data() + 1, sizeof place);
  if (place.file < file_count_ && place.bytes <= file_bytes_) return place;
  throw Error(EIO, "a long record is not where it was");
}

void LongLines::read(std::string_view stand_in, std::string& record) const {
  const Place place = place_of(stand_in);
  stored(place.file, place.offset, place.bytes).read_whole(record);
}

bool LongLines::open() {
  if (!files_.empty()) return true;
  try {
    files_.push_back(BlockFile::temporary(folders_.front(), false));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns where. A folder that is full is left.
std::uint64_t LongLines::store(std::string_view key, std::string_view record) {
  const std::uint64_t key_bytes = CheckedTexts::stored_bytes(key.size());
  const std::uint64_t bytes = key_bytes + CheckedTexts::stored_bytes(record.size());
  for (;;) {
    const BlockFile& file = files_.back();
    const std::uint64_t begin = end_;
    int error = texts_.write(file, begin, key);
    if (error == 0) error = texts_.write(file, begin + key_bytes, record);
    if (error == 0) {
      end_ = begin + bytes;
      file_bytes_ += bytes;
      file_count_ = files_.size();
      return begin;
    }
    const std::string& folder = folders_[files_.size() - 1];
    if (!is_full(error) || files_.size() == folders_.size()) {
      throw Error(error, "write a long record of " + format_bytes(record.size()) +
                             " to a temporary file in '" + folder + "'");
    }
    files_.push_back(BlockFile::temporary(folders_[files_.size()], false));
    end_ = 0;
  }
}

// One that the entry has whole is nowhere else.
LongLines::Text LongLines::key_of(const Entry& entry, std::size_t buffer) {
  if (!needs_keys()) {
    return {stored(entry.file, entry.offset, entry.record_bytes), buffers_[buffer], byte_map_};
  }
  if (entry.key_bytes <= kPrefix) {
    return Text({entry.prefix.data(), static_cast<std::size_t>(entry.key_bytes)});
  }
  return {stored(entry.file, entry.offset, entry.key_bytes), buffers_[buffer]};
}

LongLines::Text LongLines::record_of(const Entry& entry, std::size_t buffer) {
  const std::uint64_t in_front =
      entry.key_bytes <= kPrefix ? 0 : CheckedTexts::stored_bytes(entry.key_bytes);
  return {stored(entry.file, entry.offset + in_front, entry.record_bytes), buffers_[buffer]};
}

// Whose first `known` bytes are the same, as far as both have them.
int LongLines::compare(Text& a, Text& b, std::uint64_t known) {
  const std::uint64_t common = std::min(a.bytes(), b.bytes());
  for (std::uint64_t at = known < common ? 0 : common; at < common;) {
    const std::string_view of_a = a.piece(at);
    const std::string_view of_b = b.piece(at);
    const std::size_t bytes = std::min(of_a.size(), of_b.size());
    const int order = std::memcmp(of_a.data(), of_b.data(), bytes);
    if (order != 0) return order;
    at += bytes;
  }
  return (a.bytes() > b.bytes()) - (a.bytes() < b.bytes());
}

// Records whose keys are equal. Most of those are equal as well, for which no room is taken.
int LongLines::compare_behind_keys(Text a, Text b) {
  if (order_.whole_keys == nullptr && !order_.record_decides) return 0;
  const int by_bytes = compare(a, b, 0);
  if (by_bytes == 0) return 0;
  int order = 0;
  if (order_.whole_keys != nullptr) {
    order = compare_whole_keys(a.whole(whole_[0]), b.whole(whole_[1]), *order_.whole_keys);
    for (std::string& room : whole_) keep_little(room);
  }
  return order == 0 && order_.record_decides ? by_bytes : order;
}

// The key of `b`, of which the first bytes stand at `prefix`, too, and its record.
int LongLines::compare(const Entry& a, Text key, const char* prefix, Text record) {
  Text left = key_of(a, 0);
  const auto common =
      static_cast<std::size_t>(std::min({left.bytes(), key.bytes(), std::uint64_t{kPrefix}}));
  int order = common == 0 ? 0 : std::memcmp(a.prefix.data(), prefix, common);
  if (order == 0) order = compare(left, key, common);
  if (order == 0) order = compare_behind_keys(record_of(a, 0), record);
  return order_.flip == 0 ? order : (order < 0) - (order > 0);
}

int LongLines::compare(const Entry& a, const Entry& b) {
  return compare(a, key_of(b, 1), b.prefix.data(), record_of(b, 1));
}

int LongLines::compare(const Entry& a, const StoredRecord& b) {
  return compare(a, Text(b.key), b.key.data(), Text(b.record));
}

void LongLines::sort() {
  if (empty()) return;
  for (Buffer& buffer : buffers_) buffer.room.resize(CheckedTexts::kPieceBytes);
  std::sort(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
    watch_.expect_going();
    if (&a == &b) return false;
    const int order = compare(a, b);
    // Places in the files are in the order of the input.
    return order != 0 ? order < 0 : std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
  });
  if (!order_.unique) return;
  const auto last =
      std::unique(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
        watch_.expect_going();
        return compare(a, b) == 0;
      });
  entries_.erase(last, entries_.end());
}

// Where the input decides, whoever has an equal key and is not kept apart came when there was no
// place left.
LongLines::Turn LongLines::turn(const StoredRecord& other) {
  const int order = compare(entries_[next_], other);
  if (order != 0) return order < 0 ? Turn::kBefore : Turn::kBehind;
  if (order_.unique) return Turn::kInstead;
  return order_.input_decides ? Turn::kBefore : Turn::kBehind;
}

std::uint64_t LongLines::write_next(FramedOutput& out) {
  return write(record_of(entries_[next_++], 0), out);
}

std::uint64_t LongLines::write(std::string_view stand_in, FramedOutput& out) {
  const Place place = place_of(stand_in);
  return write(Text(stored(place.file, place.offset, place.bytes), buffers_[0]), out);
}

std::uint64_t LongLines::write(const Text& record, FramedOutput& out) {
  out.begin_record(record.bytes());
  for (std::uint64_t at = 0; at < record.bytes(); at += CheckedTexts::kPieceBytes) {
    watch_.expect_going();
    out.append_framed(record.piece(at));
  }
  out.end_record();
  return record.bytes();
}

void KeysOfLongLines::append(std::span<const std::string_view> records, KeyBatch& keys) const {
  keys_.append(records, keys);
}

std::string_view KeysOfLongLines::whole(std::string_view record, std::string& room) const {
  if (!lines_ || !lines_->is_stand_in(record)) return record;
  lines_->read(record, room);
  return room;
}

// Two records at a time are beside the memory of the sort, whatever the number of threads.
std::unique_lock<std::mutex> KeysOfLongLines::lock_for(std::string_view a,
                                                       std::string_view b) const {
  const bool reads = lines_ && (lines_->is_stand_in(a) || lines_->is_stand_in(b));
  return reads ? std::unique_lock(reading_) : std::unique_lock<std::mutex>();
}

void KeysOfLongLines::append_whole(std::string_view record, std::string& key) const {
  const auto lock = lock_for(record, record);
  std::string room;
  keys_.append_whole(whole(record, room), key);
}

int KeysOfLongLines::compare_whole(std::string_view a, std::string_view b) const {
  static const OfThread<std::pair<std::string, std::string>> rooms;
  std::pair<std::string, std::string> own;
  auto* const kept = rooms.get_if_any();
  auto& [of_a, of_b] = kept != nullptr ? *kept : own;
  const auto lock = lock_for(a, b);
  const int order = keys_.compare_whole(whole(a, of_a), whole(b, of_b));
  keep_little(of_a);
  keep_little(of_b);
  return order;
}

}}  // namespace vortex::v0
