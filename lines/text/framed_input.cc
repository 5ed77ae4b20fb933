#include "lines/text/framed_input.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lines/record/record_keys.h"

namespace vortex { inline namespace v0 {

namespace {

// The first batch is small, since many inputs may be open at once.
constexpr std::size_t kFirstBatchRecords = 16;
constexpr std::size_t kMostBatchRecords = 1024;
// A text of fewer bytes is not worth a thread.
constexpr std::size_t kLeastText = std::size_t{4} << 10;
// What is put together is lengthened by pieces as long as it is, so that little of the copy belongs
// to the next record; by this many bytes at least.
constexpr std::size_t kLeastPiece = 4096;

std::string complaint_about(InvalidQuote what) {
  switch (what) {
    case InvalidQuote::kTextBehind:
      return "text stands behind the quote that closes the value: double a quote that belongs to "
             "it";
    case InvalidQuote::kNeverClosed:
      return "the quote that opens here is never closed: close it where the value ends";
    case InvalidQuote::kInsideValue:
    case InvalidQuote::kNone:
      break;
  }
  return "a quote stands inside a value without quotes: put the value into quotes and double the "
         "one inside";
}

}  // namespace

// Most records that cross a border are short. The budget is taken for long ones only.
AssemblyRoom own_assembly_room(LongRoomBudget& budget) {
  const auto short_room = std::make_shared<std::vector<char>>();
  const auto room = std::make_shared<LongRoom>(budget);
  return [short_room, room](std::string_view so_far, std::size_t bytes) -> std::span<char> {
    if (bytes <= kLongRecord) {
      short_room->resize(kLongRecord);  // once: it stays where it is
      if (so_far.data() != short_room->data()) {
        room->shrink(0);  // another record than before
        std::memcpy(short_room->data(), so_far.data(), so_far.size());
      }
      return *short_room;
    }
    const bool elsewhere = so_far.data() != room->data();
    if (elsewhere) room->shrink(bytes);
    if (!room->grow(bytes)) return {};
    if (elsewhere) std::memcpy(room->data(), so_far.data(), so_far.size());
    return room->span();
  };
}

FramedInput::FramedInput(std::unique_ptr<InputText> text, std::string name,
                         const RecordFraming& framing, std::uint64_t longest, AssemblyRoom room)
    : text_(std::move(text)),
      name_(std::move(name)),
      framing_(framing),
      longest_(longest),
      room_(std::move(room)),
      batch_(kFirstBatchRecords) {}

std::string_view FramedInput::unused() const noexcept {
  return piece_.substr(piece_.size() - static_cast<std::size_t>(read_ - done_));
}

// Goes on to the next piece. Returns false at the end.
bool FramedInput::read_piece() {
  if (at_end_) return false;
  std::string_view piece;
  if (!behind_kept_.empty()) {
    piece = std::exchange(behind_kept_, {});
  } else if (ahead_.empty()) {
    piece = text_->next();
  } else {
    text_->pass_first();
    piece = ahead_.front();
    ahead_.erase(ahead_.begin());
  }
  at_end_ = piece.empty();
  if (at_end_) return false;
  piece_ = piece;
  read_ += piece.size();
  return true;
}

// Skips a byte-order mark in front of the first batch.
void FramedInput::pass_mark() noexcept {
  has_mark_ =
      framing_.kind() == RecordFraming::Kind::kQuoted && unused().starts_with(kByteOrderMark);
  if (has_mark_) done_ += kByteOrderMark.size();
}

std::span<const std::string_view> FramedInput::next() {
  if (done_ == read_ && !read_piece()) return {};
  if (done_ == 0) {
    pass_mark();
    if (done_ == read_ && !read_piece()) return {};
  }
  if (batch_full_) batch_.resize(std::min(4 * batch_.size(), kMostBatchRecords));
  first_record_ = records_;
  first_offset_ = done_;
  const FramedRecords found = split_records(framing_, unused(), at_end_, batch_);
  std::size_t records = found.records;
  batch_full_ = records == batch_.size();
  if (records > 0) {
    note_invalid(found.invalid, found.first_invalid, unused().substr(0, found.first_invalid_at));
    done_ += found.bytes;
  } else {
    if (found.malformed) refuse_malformed();
    batch_[0] = framing_.kind() == RecordFraming::Kind::kQuoted ? assemble_quoted() : assemble();
    records = 1;
  }
  records_ += records;
  count_lines(records);
  return std::span(batch_).first(records);
}

void ScatteredText::end_behind_last(char byte) noexcept {
  while (!parts.empty()) {
    std::string_view& last = parts.back();
    const std::size_t kept = last.rfind(byte) + 1;  // npos + 1 is 0
    bytes -= last.size() - kept;
    last = last.substr(0, kept);
    if (kept != 0) return;
    parts.pop_back();
  }
}

// Makes at least so many bytes be there, if they can be.
void FramedInput::read_beside(std::size_t bytes) {
  std::size_t there = unused().size();
  for (const std::string_view piece : ahead_) there += piece.size();
  while (there < bytes) {
    const std::string_view piece = text_->next_beside();
    if (piece.empty()) return;
    ahead_.push_back(piece);
    there += piece.size();
  }
}

// Moves the beginning of the pieces to the text: up to the end of the record that has its byte
// `bytes`. Returns false where that is not there, or is long.
bool FramedInput::move_records(std::span<std::string_view>& pieces, std::size_t bytes,
                               ScatteredText& text) const {
  for (; !pieces.empty() && text.bytes <= bytes + kLongRecord; pieces = pieces.subspan(1)) {
    std::string_view& piece = pieces.front();
    const std::size_t from = bytes > text.bytes ? bytes - text.bytes - 1 : 0;
    const std::size_t end = piece.find(framing_.delimiter(), from);
    text.append(piece.substr(0, end == piece.npos ? end : end + 1));
    if (end == piece.npos) continue;
    piece.remove_prefix(end + 1);
    return text.bytes <= bytes + kLongRecord;
  }
  return false;
}

std::size_t FramedInput::next_texts(std::span<ScatteredText> texts, std::size_t bytes) {
  if (framing_.kind() != RecordFraming::Kind::kDelimited || at_end_) return 0;
  if (done_ == read_ && !read_piece()) return 0;
  read_beside(texts.size() * bytes);
  std::vector<std::string_view> pieces{unused()};
  pieces.insert(pieces.end(), ahead_.begin(), ahead_.end());
  std::size_t all = 0;
  for (const std::string_view piece : pieces) all += piece.size();
  const std::size_t each = std::min(std::max(all / texts.size(), kLeastText), bytes);
  std::span<std::string_view> left(pieces);
  std::size_t count = 0;
  for (; count < texts.size(); ++count) {
    texts[count].clear();
    if (move_records(left, each, texts[count])) continue;
    texts[count].end_behind_last(framing_.delimiter());
    if (texts[count].bytes != 0 && texts[count].bytes <= each) ++count;
    break;
  }
  return count;
}

void FramedInput::pass(std::uint64_t records, std::uint64_t bytes) {
  records_ += records;
  done_ += bytes;
  while (done_ > read_) read_piece();
}

// Puts a piece, which is done then, behind the record in the assembly room, where `spare` bytes
// more have room. Returns the place behind the record.
char* FramedInput::lengthen(std::string_view& record, std::string_view piece, const char* advice,
                            std::size_t spare) {
  const std::span<char> room = room_(record, record.size() + piece.size() + spare);
  if (room.empty()) {
    throw LongRecordError(at_place(first_record_, first_offset_) + "is longer than " +
                          format_bytes(longest_) +
                          ", the longest that the memory has room for: " + advice);
  }
  std::memcpy(room.data() + record.size(), piece.data(), piece.size());
  done_ += piece.size();
  record = {room.data(), record.size() + piece.size()};
  return room.data() + record.size();
}

// Puts together the record that begins in the rest of the piece and ends in a later one.
std::string_view FramedInput::assemble() {
  constexpr char kAdvice[] = "sort with more memory";
  std::string_view record = unused();
  lengthen(record, record.substr(0, 0), kAdvice);
  done_ = read_;
  const bool delimited = framing_.kind() == RecordFraming::Kind::kDelimited;
  for (;;) {
    const bool ended = unused().empty() && !read_piece();
    std::string_view piece = unused();
    if (!delimited) {
      piece = piece.substr(0, std::max(kLeastPiece, record.size()));
    } else if (!ended) {
      piece = piece.substr(0, std::min(piece.find(framing_.delimiter()), piece.size() - 1) + 1);
    }
    lengthen(record, piece, kAdvice);
    if (delimited && !ended && record.back() != framing_.delimiter()) continue;
    std::string_view found;
    const FramedRecords split =
        split_records(framing_, record, at_end_ && done_ == read_, {&found, 1});
    if (split.records == 1) {
      put_back(record.substr(split.bytes));
      return found;
    }
    if (split.malformed) refuse_malformed();
  }
}

// What a length function has looked at behind the record comes again. Whoever takes the record
// needs the room; what lies in front of the piece, which has gone at the end, is kept beside it.
void FramedInput::put_back(std::string_view rest) {
  const std::uint64_t taken = at_end_ ? 0 : piece_.size() - (read_ - done_);
  done_ -= rest.size();
  if (rest.size() <= taken) return;
  if (!at_end_) behind_kept_ = piece_;
  read_ -= behind_kept_.size();
  kept_ = rest.substr(0, rest.size() - static_cast<std::size_t>(taken));
  piece_ = kept_;
}

// The same for CSV.
std::string_view FramedInput::assemble_quoted() {
  CsvRecordScan scan(framing_.delimiter(), framing_.separator());
  std::string_view record = unused();
  lengthen(record, record.substr(0, 0), "sort with more memory");
  done_ = read_;
  for (;;) {
    const bool ended = unused().empty() && !read_piece();
    const std::string_view piece = unused().substr(0, std::max(kLeastPiece, record.size()));
    char* const behind =
        lengthen(record, piece,
                 scan.in_quotes() ? "sort with more memory, or close its quote, if one is open"
                                  : "sort with more memory",
                 ended ? 1 : 0);
    const std::size_t length = scan.find_end(record, ended);
    if (length == CsvRecordScan::kOpen && !ended) continue;
    note_invalid(scan.invalid() != InvalidQuote::kNone ? 1 : 0, scan.invalid(),
                 record.substr(0, scan.invalid_at()));
    if (length == CsvRecordScan::kOpen) {
      ends_in_quotes_ = true;
      *behind = '"';
      return {record.data(), record.size() + 1};
    }
    done_ -= record.size() - std::min(length + 1, record.size());
    return record.substr(0, length);
  }
}

// Counts the lines of the batch, for messages.
void FramedInput::count_lines(std::size_t records) {
  if (framing_.invalid_quotes() != InvalidQuotes::kRefused) return;
  lines_ += records;
  for (const std::string_view record : std::span(batch_).first(records)) {
    lines_ +=
        static_cast<std::uint64_t>(std::count(record.begin(), record.end(), framing_.delimiter()));
  }
}

// Counts the records of the batch that have invalid quotes. `in_front` is the text of the batch in
// front of the first of these.
void FramedInput::note_invalid(std::size_t records, InvalidQuote what, std::string_view in_front) {
  invalid_records_ += records;
  if (records == 0 || framing_.invalid_quotes() != InvalidQuotes::kRefused) return;
  const auto lines = std::count(in_front.begin(), in_front.end(), framing_.delimiter());
  const std::size_t line_begin = in_front.rfind(framing_.delimiter()) + 1;  // npos + 1 is 0
  throw Error(EINVAL, "'" + name_ + "', line " +
                          std::to_string(lines_ + static_cast<std::uint64_t>(lines) + 1) +
                          ", column " + std::to_string(in_front.size() - line_begin + 1) + ": " +
                          complaint_about(what));
}

void FramedInput::refuse_malformed() const {
  throw Error(EINVAL,
              at_place(first_record_, first_offset_) + "is not whole, or is none of this framing");
}

// The records of a batch lie one behind the other, and a length in front of each is equally long.
void FramedInput::refuse_long(std::size_t index, const std::string& what) const {
  const auto offset = static_cast<std::uint64_t>(batch_[index].data() - batch_[0].data());
  throw LongRecordError(at_place(first_record_ + index, first_offset_ + offset) + what);
}

std::string FramedInput::at_place(std::uint64_t record, std::uint64_t offset) const {
  return "record " + std::to_string(record + 1) + " of '" + name_ + "', at offset " +
         std::to_string(offset) + ", ";
}

}}  // namespace vortex::v0
