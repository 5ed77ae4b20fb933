// Records found in a text, and written to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lines/fields/csv_quotes.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

// The records that were found in a text.
struct FramedRecords {
  std::size_t records = 0;
  std::size_t bytes = 0;   // the bytes of the text that the records take with their framing
  bool malformed = false;  // what follows is no record, and will not become one
  // In CSV: the records with invalid quotes, and the first of these quotes with its offset in the
  // text.
  std::size_t invalid = 0;
  InvalidQuote first_invalid = InvalidQuote::kNone;
  std::size_t first_invalid_at = 0;
};

// Finds the records at the beginning of `text`, as many as are whole and `records` has room for.
// With `ends` nothing follows the text. An empty text has no record. A record of CSV that never
// closes a quote is none until the quote is added.
FramedRecords split_records(const RecordFraming& framing, std::string_view text, bool ends,
                            std::span<std::string_view> records);

// A text in UTF-8 may begin with it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The longest record that the framing can write.
std::uint64_t longest_record(const RecordFraming& framing) noexcept;

// The bytes that a record takes besides its own.
inline std::size_t framing_bytes(const RecordFraming& framing) noexcept {
  switch (framing.kind()) {
    case RecordFraming::Kind::kDelimited:
    case RecordFraming::Kind::kQuoted:
      return 1;
    case RecordFraming::Kind::kLengthPrefixed:
      return sizeof(std::uint32_t);
    case RecordFraming::Kind::kFunction:
      break;
  }
  return 0;
}

}}  // namespace vortex::v0
