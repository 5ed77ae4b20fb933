// Records found in a text, and written to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "vortex/line_sort.h"

namespace vortex::inline v0 {

// The records that were found in a text.
struct FramedRecords {
  std::size_t records = 0;
  std::size_t bytes = 0;   // of the text, which the records take with their framing
  bool malformed = false;  // what follows is no record, and will not become one
};

// Finds the records at the beginning of `text`, as many as are whole and `records` has room for.
// With `ends` nothing follows the text. An empty text has no record.
FramedRecords split_records(const RecordFraming& framing, std::string_view text, bool ends,
                            std::span<std::string_view> records);

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

}  // namespace vortex::inline v0
