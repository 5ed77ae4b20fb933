// The records of an input, a batch at a time.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/stream/file_source.h"
#include "lines/record/framing.h"
#include "lines/text/input_text.h"
#include "lines/text/long_room.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// Gives room in which a record that crosses the border of a piece is put together: `bytes` at
// least, of which the first are a copy of `so_far`, which is what the call before returned or lies
// elsewhere. It gives nothing where the record is too long.
using AssemblyRoom = std::function<std::span<char>(std::string_view so_far, std::size_t bytes)>;

// Makes a room with memory of its own, at most what the budget has.
AssemblyRoom own_assembly_room(LongRoomBudget& budget);

// The memory has no room for a record, whose place in its input the message names.
class LongRecordError : public Error {
 public:
  explicit LongRecordError(const std::string& message) : Error(EMSGSIZE, message) {}
};

// Whole records in their framing, one behind the other, wherever the pieces are that have them.
struct ScatteredText {
  std::vector<std::string_view> parts;
  std::size_t bytes = 0;

  void clear() noexcept {
    parts.clear();
    bytes = 0;
  }
  void append(std::string_view part) {
    if (!part.empty()) parts.push_back(part);
    bytes += part.size();
  }
  // Leaves what lies in front of the last byte like this, and that.
  void end_behind_last(char byte) noexcept;
};

// Finds the records of an input. A batch lies in one piece of its text, or is one record that
// crosses a border, in the assembly room.
class FramedInput {
 public:
  // The way in which a text may be read ahead, with `held` blocks for next_texts().
  static FileSourceOptions reading(std::size_t read_ahead, std::size_t request_bytes,
                                   std::size_t held = 1) {
    return {.blocks_for_stream = held,
            .read_ahead = read_ahead,
            .requests = {.request_bytes = request_bytes}};
  }

  // Messages have `name`, and `longest`, the length of the longest record that there can be room
  // for.
  FramedInput(std::unique_ptr<InputText> text, std::string name, const RecordFraming& framing,
              std::uint64_t longest, AssemblyRoom room);

  // There is room for longer records from now on, and there are blocks for the rest of a pipe.
  void go_on(std::uint64_t longest, BlockReading blocks) {
    longest_ = longest;
    text_->read_rest_ahead(std::move(blocks));
  }

  // Returns the next records, valid until the following call; none when the input has ended. Not
  // inside guarded(). Throws LongRecordError; Error: EINVAL for what is no record, and the text's.
  std::span<const std::string_view> next();

  // What would come next, as texts of about `bytes` each, or less, which others may look for
  // records; they are valid until the following call. Returns how many. None where records are not
  // delimited, where a long one comes, near to the end, and where the text has no more blocks: what
  // comes is got by next(). Throws as that does.
  std::size_t next_texts(std::span<ScatteredText> texts, std::size_t bytes);
  // The first `bytes` of those texts, with so many records, have been taken. The rest comes again.
  void pass(std::uint64_t records, std::uint64_t bytes);

  // The number of the first record of the batch, from 0 on, and its offset.
  std::uint64_t first_record() const noexcept { return first_record_; }
  std::uint64_t first_offset() const noexcept { return first_offset_; }
  // Throws LongRecordError about a record of the batch.
  [[noreturn]] void refuse_long(std::size_t index, const std::string& what) const;
  // Bytes that have been found to be records.
  std::uint64_t bytes() const noexcept { return done_; }
  // For CSV: whether the input begins with a byte-order mark, which is no part of a record; how
  // many records have invalid quotes so far; whether the last one never closes a quote.
  bool has_mark() const noexcept { return has_mark_; }
  std::uint64_t invalid_records() const noexcept { return invalid_records_; }
  bool ends_in_quotes() const noexcept { return ends_in_quotes_; }

 private:
  bool read_piece();
  std::string_view unused() const noexcept;
  void read_beside(std::size_t bytes);
  bool move_records(std::span<std::string_view>& pieces, std::size_t bytes,
                    ScatteredText& text) const;
  void pass_mark() noexcept;
  char* lengthen(std::string_view& record, std::string_view piece, const char* advice,
                 std::size_t spare = 0);
  std::string_view assemble();
  void put_back(std::string_view rest);
  std::string_view assemble_quoted();
  void count_lines(std::size_t records);
  void note_invalid(std::size_t records, InvalidQuote what, std::string_view in_front);
  [[noreturn]] void refuse_malformed() const;
  std::string at_place(std::uint64_t record, std::uint64_t offset) const;

  const std::unique_ptr<InputText> text_;
  std::string_view piece_;               // of the text, where next() looks for records
  std::vector<std::string_view> ahead_;  // the ones behind it that are there already
  bool at_end_ = false;                  // and the last
  std::string kept_;                     // a piece that comes again is the end of another,
  std::string_view behind_kept_;         // and this one follows it
  const std::string name_;
  const RecordFraming framing_;
  std::uint64_t longest_;
  const AssemblyRoom room_;
  std::vector<std::string_view> batch_;
  bool batch_full_ = false;  // and might be larger
  std::uint64_t done_ = 0;   // bytes up to the end of the last batch
  std::uint64_t read_ = 0;   // bytes up to the end of that piece
  std::uint64_t records_ = 0;
  std::uint64_t first_record_ = 0;
  std::uint64_t first_offset_ = 0;
  bool has_mark_ = false;
  bool ends_in_quotes_ = false;
  std::uint64_t invalid_records_ = 0;
  std::uint64_t lines_ = 0;  // in front of the batch, where invalid quotes are refused
};

}}  // namespace vortex::v0
