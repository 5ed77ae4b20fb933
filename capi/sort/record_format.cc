#include "capi/sort/record_format.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "capi/stream/handle.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi {

namespace {

KeyKind kind_of(int kind) {
  switch (kind) {
    case VTX_KEY_BYTES:
      return KeyKind::kBytes;
    case VTX_KEY_UNSIGNED:
      return KeyKind::kUnsigned;
    case VTX_KEY_SIGNED:
      return KeyKind::kSigned;
    case VTX_KEY_FLOAT:
      return KeyKind::kFloat;
  }
  throw Error(EINVAL, "there is no kind " + std::to_string(kind) + " of keys");
}

}  // namespace

RecordFormat record_format_of(const vtx_record_format* format) {
  if (format == nullptr) throw Error(EINVAL, "the format of the records is NULL");
  expect_array(format->keys, format->key_count, sizeof(vtx_key), "the keys of the format");
  std::vector<RecordKey> keys;
  for (std::size_t i = 0; i < format->key_count; ++i) {
    const vtx_key& given = format->keys[i];
    RecordKey key;
    key.offset = given.offset;
    key.length = given.length;
    key.type.kind = kind_of(given.kind);
    if (key.type.kind != KeyKind::kBytes) key.type.bytes = given.length;
    if (given.big_endian != 0) key.type.byte_order = ByteOrder::kBigEndian;
    key.descending = given.descending != 0;
    keys.push_back(key);
  }
  return RecordFormat(format->record_bytes, std::move(keys));
}

}}}  // namespace vortex::v0::capi
