// The kinds of files that `vortex gen` makes, by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "vortex/record_order.h"

namespace vortex::cli {

// The layout of a record of the form.
enum class RecordKind : std::uint8_t {
  kBinary,  // 100 bytes, the first 10 are the key: the sort benchmark's binary form
  kAscii,   // the same in printable characters, a line each
  kPair,    // a key u64 and the record's number u64, both little endian
  kNumber,  // a number
};

struct RecordForm {
  RecordKind kind = RecordKind::kBinary;
  KeyType type;  // of kPair's key and of kNumber
};

// "records", "ascii", "pairs", or the type of a number (see parse_key_type()). Throws
// Error(EINVAL).
RecordForm parse_record_form(std::string_view text);
std::string to_string(const RecordForm& form);

// Length and key of the form's records.
RecordFormat record_format(const RecordForm& form);

}  // namespace vortex::cli
