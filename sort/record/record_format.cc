#include "vortex/record_order.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

struct NamedType {
  std::string_view name;
  KeyKind kind;
  std::size_t bytes;
};

constexpr std::array kNumbers = {
    NamedType{"u8", KeyKind::kUnsigned, 1},  NamedType{"u16", KeyKind::kUnsigned, 2},
    NamedType{"u32", KeyKind::kUnsigned, 4}, NamedType{"u64", KeyKind::kUnsigned, 8},
    NamedType{"i8", KeyKind::kSigned, 1},    NamedType{"i16", KeyKind::kSigned, 2},
    NamedType{"i32", KeyKind::kSigned, 4},   NamedType{"i64", KeyKind::kSigned, 8},
    NamedType{"f32", KeyKind::kFloat, 4},    NamedType{"f64", KeyKind::kFloat, 8},
};

[[noreturn]] void refuse(const std::string& message) { throw Error(EINVAL, message); }

std::string quoted(std::string_view text) {
  std::string result = "'";
  result += text;
  result += '\'';
  return result;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::size_t parse_number(std::string_view text, const std::string& context,
                         const std::string& what) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) refuse(context + what + " is too large");
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    refuse(context + what + " " + quoted(text) + " is no number of bytes");
  }
  return value;
}

}  // namespace

KeyType parse_key_type(std::string_view text, const std::string& context) {
  if (text == "bytes") return {};
  std::string_view name = text;
  ByteOrder order = ByteOrder::kLittleEndian;
  if (name.ends_with("le") || name.ends_with("be")) {
    if (name.ends_with("be")) order = ByteOrder::kBigEndian;
    name.remove_suffix(2);
  }
  for (const NamedType& number : kNumbers) {
    if (number.name == name) return {number.kind, number.bytes, order};
  }
  refuse(
      context + "no type " + quoted(text) +
      "; there are u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, each with 'le' (little endian, "
      "the default) or 'be' (big endian) behind it, and bytes");
}

std::string to_string(const KeyType& type) {
  if (type.kind == KeyKind::kBytes) return "bytes";
  constexpr std::string_view kLetters = " uif";  // of each KeyKind
  const auto kind = static_cast<std::size_t>(type.kind);
  std::string text =
      (kind < kLetters.size() ? kLetters[kind] : '?') + std::to_string(8 * type.bytes);
  if (type.bytes > 1) text += type.byte_order == ByteOrder::kBigEndian ? "be" : "le";
  return text;
}

RecordKey parse_record_key(std::string_view text) {
  const std::string context = "key " + quoted(text) + ": ";
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 4) {
    refuse(context + "a key is OFFSET:LENGTH[:TYPE][:desc], as in 0:10 or 8:4:u32be:desc");
  }
  RecordKey key;
  key.offset = parse_number(parts[0], context, "the offset");
  key.length = parse_number(parts[1], context, "the length");
  if (key.length == 0) refuse(context + "the length is 0; a key has at least 1 byte");
  std::optional<std::string_view> type;
  for (std::size_t i = 2; i < parts.size(); ++i) {
    if (parts[i] == "desc" && i + 1 == parts.size()) {
      key.descending = true;
    } else if (i == 2) {
      type = parts[i];
    } else {
      refuse(context + "nothing but 'desc' can stand behind the type, not " + quoted(parts[i]));
    }
  }
  if (type) key.type = parse_key_type(*type, context);
  if (key.type.kind != KeyKind::kBytes && key.length != key.type.bytes) {
    refuse(context + "the length is " + std::to_string(key.length) + ", but " +
           to_string(key.type) + " has " + std::to_string(key.type.bytes) +
           (key.type.bytes == 1 ? " byte" : " bytes"));
  }
  return key;
}

std::string to_string(const RecordKey& key) {
  return std::to_string(key.offset) + ":" + std::to_string(key.length) + ":" + to_string(key.type) +
         (key.descending ? ":desc" : "");
}

std::uint64_t load_bits(const std::byte* bytes, const KeyType& type) noexcept {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < type.bytes; ++i) {
    const std::size_t from = type.byte_order == ByteOrder::kBigEndian ? i : type.bytes - 1 - i;
    bits = bits << 8 | std::to_integer<std::uint64_t>(bytes[from]);
  }
  return bits;
}

void store_bits(std::byte* bytes, const KeyType& type, std::uint64_t bits) noexcept {
  for (std::size_t i = 0; i < type.bytes; ++i) {
    const std::size_t to = type.byte_order == ByteOrder::kBigEndian ? type.bytes - 1 - i : i;
    bytes[to] = static_cast<std::byte>(bits);
    bits >>= 8;
  }
}

namespace {

bool is_a_number_or_bytes(const KeyType& type) noexcept {
  if (type.kind == KeyKind::kBytes) return true;
  const bool small = type.kind != KeyKind::kFloat && (type.bytes == 1 || type.bytes == 2);
  return small || type.bytes == 4 || type.bytes == 8;
}

void check_key(const RecordKey& key, std::size_t record_bytes) {
  const std::string context = "key '" + to_string(key) + "': ";
  if (key.length == 0) refuse(context + "the length is 0");
  if (!is_a_number_or_bytes(key.type)) {
    refuse(context + "no number of this kind has " + std::to_string(key.type.bytes) +
           " bytes: integers have 1, 2, 4 or 8, floating-point numbers 4 or 8");
  }
  if (key.type.kind != KeyKind::kBytes && key.length != key.type.bytes) {
    refuse(context + "the length does not fit the type");
  }
  if (key.offset > record_bytes || key.length > record_bytes - key.offset) {
    refuse(context + std::to_string(key.length) + " bytes from byte " + std::to_string(key.offset) +
           " on do not lie inside a record of " + std::to_string(record_bytes) + " bytes");
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
  if (record_bytes == 0 || record_bytes > kMaxRecordBytes) {
    refuse("a record of " + std::to_string(record_bytes) + " bytes: records have 1 to " +
           std::to_string(kMaxRecordBytes) + " bytes");
  }
  if (keys_.empty()) keys_.push_back({.offset = 0, .length = record_bytes, .type = {}});
  for (const RecordKey& key : keys_) {
    check_key(key, record_bytes);
    normalised_bytes_ += key.length;
    if (normalised_bytes_ <= sizeof(std::uint64_t)) ++first_behind_;
  }
}

RecordFormat RecordFormat::reversed() const {
  RecordFormat result = *this;
  for (RecordKey& key : result.keys_) key.descending = !key.descending;
  return result;
}

int RecordFormat::compare_from(std::size_t first, const std::byte* left,
                               const std::byte* right) const noexcept {
  for (std::size_t i = first; i < keys_.size(); ++i) {
    const int order = compare_key(keys_[i], left, right);
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

}}  // namespace vortex::v0
