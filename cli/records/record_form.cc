#include "cli/records/record_form.h"

#include <cerrno>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

constexpr KeyType kPairKey = {KeyKind::kUnsigned, 8, ByteOrder::kLittleEndian};

}  // namespace

RecordForm parse_record_form(std::string_view text) {
  if (text == "records") return {RecordKind::kBinary, {}};
  if (text == "ascii") return {RecordKind::kAscii, {}};
  if (text == "pairs") return {RecordKind::kPair, kPairKey};
  const std::string context =
      "form '" + std::string(text) + "': it is records, ascii, pairs or a type of numbers; ";
  const KeyType type = parse_key_type(text, context);
  if (type.kind == KeyKind::kBytes) throw Error(EINVAL, context + "bytes are no numbers");
  return {RecordKind::kNumber, type};
}

std::string to_string(const RecordForm& form) {
  switch (form.kind) {
    case RecordKind::kBinary:
      return "records";
    case RecordKind::kAscii:
      return "ascii";
    case RecordKind::kPair:
      return "pairs";
    case RecordKind::kNumber:
      break;
  }
  return to_string(form.type);
}

RecordFormat record_format(const RecordForm& form) {
  switch (form.kind) {
    case RecordKind::kBinary:
    case RecordKind::kAscii:
      return RecordFormat(100, {{.offset = 0, .length = 10, .type = {}}});
    case RecordKind::kPair:
      return RecordFormat(16, {{.offset = 0, .length = 8, .type = form.type}});
    case RecordKind::kNumber:
      break;
  }
  return RecordFormat(form.type.bytes,
                      {{.offset = 0, .length = form.type.bytes, .type = form.type}});
}

}  // namespace vortex::cli
