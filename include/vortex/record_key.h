// A key inside a record of bytes: where it lies, what it means, and which way it is sorted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sort/record/key_code.h"

namespace vortex::inline v0 {

enum class ByteOrder : std::uint8_t { kLittleEndian, kBigEndian };

// The type of a number or a string of bytes, as the program names it: u8 ... u64, i8 ... i64, f32,
// f64, each with "le" (the default) or "be" behind it, or bytes.
struct KeyType {
  KeyKind kind = KeyKind::kBytes;
  std::size_t bytes = 0;  // of a number; 0 for kBytes, whose length is the key's
  ByteOrder byte_order = ByteOrder::kLittleEndian;

  bool operator==(const KeyType&) const = default;
};

// One key of a record. Numbers are ordered as numbers; floating-point numbers in the total order of
// their bits: negative NaNs, -inf ... -0.0, +0.0 ... +inf, NaNs.
struct RecordKey {
  std::size_t offset = 0;  // bytes from the beginning of the record
  std::size_t length = 0;  // in bytes
  KeyType type;
  bool descending = false;

  bool operator==(const RecordKey&) const = default;
};

// "u32be" and so on; throws Error(EINVAL) with the names there are. `context` begins the message.
KeyType parse_key_type(std::string_view text, const std::string& context);
std::string to_string(const KeyType& type);

// OFFSET:LENGTH[:TYPE][:desc], the type being bytes by default. Throws Error(EINVAL) that quotes
// the text and says which part is wrong and what is allowed there. Whether the key lies inside a
// record is RecordFormat's business.
RecordKey parse_record_key(std::string_view text);

// The text that parse_record_key() understands, with nothing left out.
std::string to_string(const RecordKey& key);

// The value of a number whose bytes are at `bytes`, as bits.
std::uint64_t load_bits(const std::byte* bytes, const KeyType& type) noexcept;
void store_bits(std::byte* bytes, const KeyType& type, std::uint64_t bits) noexcept;

// Encodes the value of such a number, shifted to the top of a word. For kBytes: the first bytes of
// the key, loaded as a big-endian number.
inline KeyEncoder<std::uint64_t> key_encoder(const RecordKey& key) noexcept {
  return KeyEncoder<std::uint64_t>({key.type.kind, key.descending},
                                   static_cast<int>(8 * (key.length < 8 ? key.length : 8)));
}

}  // namespace vortex::inline v0
