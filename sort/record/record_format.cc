#include "vortex/record_format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

bool is_a_number_or_bytes(const KeyType& type) noexcept {
  if (type.kind == KeyKind::kBytes) return true;
  const bool small = type.kind != KeyKind::kFloat && (type.bytes == 1 || type.bytes == 2);
  return small || type.bytes == 4 || type.bytes == 8;
}

void check_key(const RecordKey& key, std::size_t record_bytes) {
  const std::string context = "key '" + to_string(key) + "': ";
  if (key.length == 0) throw Error(EINVAL, context + "the length is 0");
  if (!is_a_number_or_bytes(key.type)) {
    throw Error(EINVAL, context + "no number of this kind has " + std::to_string(key.type.bytes) +
                            " bytes: integers have 1, 2, 4 or 8, floating-point numbers 4 or 8");
  }
  if (key.type.kind != KeyKind::kBytes && key.length != key.type.bytes) {
    throw Error(EINVAL, context + "the length does not fit the type");
  }
  if (key.offset > record_bytes || key.length > record_bytes - key.offset) {
    throw Error(EINVAL, context + std::to_string(key.length) + " bytes from byte " +
                            std::to_string(key.offset) + " on do not lie inside a record of " +
                            std::to_string(record_bytes) + " bytes");
  }
}

// The number at `key`, encoded, in the upper bits.
std::uint64_t encoded_number(const RecordKey& key, const std::byte* record) noexcept {
  const std::uint64_t bits = load_bits(record + key.offset, key.type);
  return key_encoder(key).encode(bits << (64 - 8 * key.type.bytes));
}

// Descending keys are reversed.
int compare_key(const RecordKey& key, const std::byte* left, const std::byte* right) noexcept {
  if (key.type.kind == KeyKind::kBytes) {
    const int order = std::memcmp(left + key.offset, right + key.offset, key.length);
    return key.descending ? -static_cast<int>(order > 0) + static_cast<int>(order < 0) : order;
  }
  const std::uint64_t a = encoded_number(key, left);
  const std::uint64_t b = encoded_number(key, right);
  return static_cast<int>(a > b) - static_cast<int>(a < b);
}

// Writes the bytes of one key in the order that memcmp() looks at them, at most `room` of them.
void normalise_key(const RecordKey& key, const std::byte* record, std::byte* to,
                   std::size_t room) noexcept {
  const std::size_t bytes = std::min(room, key.length);
  if (key.type.kind == KeyKind::kBytes) {
    std::memcpy(to, record + key.offset, bytes);
    for (std::size_t i = 0; i < bytes && key.descending; ++i) to[i] = ~to[i];
    return;
  }
  const std::uint64_t bits = encoded_number(key, record);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
}

}  // namespace

RecordFormat::RecordFormat(std::size_t record_bytes, std::vector<RecordKey> keys)
    : record_bytes_(record_bytes), keys_(std::move(keys)) {
  if (record_bytes == 0 || record_bytes > kMostRecordBytes) {
    throw Error(EINVAL, "a record of " + std::to_string(record_bytes) +
                            " bytes: records have 1 to " + std::to_string(kMostRecordBytes) +
                            " bytes");
  }
  if (keys_.empty()) keys_.push_back({.offset = 0, .length = record_bytes, .type = {}});
  for (const RecordKey& key : keys_) {
    check_key(key, record_bytes);
    normalised_bytes_ += key.length;
  }
}

RecordFormat RecordFormat::reversed() const {
  RecordFormat result = *this;
  for (RecordKey& key : result.keys_) key.descending = !key.descending;
  return result;
}

int RecordFormat::compare(const std::byte* left, const std::byte* right) const noexcept {
  for (const RecordKey& key : keys_) {
    const int order = compare_key(key, left, right);
    if (order != 0) return order;
  }
  return 0;
}

std::uint64_t RecordFormat::leading_bits(const std::byte* record) const noexcept {
  std::byte leading[8] = {};
  std::size_t used = 0;
  for (const RecordKey& key : keys_) {
    if (used == sizeof leading) break;
    normalise_key(key, record, leading + used, sizeof leading - used);
    used += std::min(key.length, sizeof leading - used);
  }
  return load_bits(leading, {KeyKind::kUnsigned, 8, ByteOrder::kBigEndian});
}

void RecordFormat::normalise(const std::byte* record, std::byte* normalised) const noexcept {
  for (const RecordKey& key : keys_) {
    normalise_key(key, record, normalised, key.length);
    normalised += key.length;
  }
}

std::string to_string(const RecordFormat& format) {
  std::string text = "records of " + std::to_string(format.record_bytes()) + " bytes by";
  for (const RecordKey& key : format.keys()) text.append(" ").append(to_string(key));
  return text;
}

}  // namespace vortex::inline v0
