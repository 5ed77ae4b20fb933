// The format of a file of records: the length of a record, the keys that order the records, and the
// place of each key in a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/detail/export.h"
#include "vortex/detail/key_code.h"

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
VORTEX_EXPORT KeyType parse_key_type(std::string_view text, const std::string& context);
VORTEX_EXPORT std::string to_string(const KeyType& type);

// OFFSET:LENGTH[:TYPE][:desc], the type being bytes by default. Throws Error(EINVAL) that quotes
// the text and says which part is wrong and what is allowed there. Whether the key lies inside a
// record is RecordFormat's business.
VORTEX_EXPORT RecordKey parse_record_key(std::string_view text);

// The text that parse_record_key() understands, with nothing left out.
VORTEX_EXPORT std::string to_string(const RecordKey& key);

// The value of a number whose bytes are at `bytes`, as bits.
VORTEX_EXPORT std::uint64_t load_bits(const std::byte* bytes, const KeyType& type) noexcept;
VORTEX_EXPORT void store_bits(std::byte* bytes, const KeyType& type, std::uint64_t bits) noexcept;

// Encodes the value of such a number, shifted to the top of a word. For kBytes: the first bytes of
// the key, loaded as a big-endian number.
inline KeyEncoder<std::uint64_t> key_encoder(const RecordKey& key) noexcept {
  return KeyEncoder<std::uint64_t>({key.type.kind, key.descending},
                                   static_cast<int>(8 * (key.length < 8 ? key.length : 8)));
}

// Two whole neighbouring records fit in the window of a stream of default blocks.
inline constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20;

// Blocks that a reader or writer of records holds at once: two where records straddle blocks.
inline std::size_t blocks_for_records(std::size_t block_bytes, std::size_t record_bytes) noexcept {
  return block_bytes % record_bytes == 0 ? 1 : 2;
}

// Records of one length, ordered by their keys, the first counting most. Records are compared by
// their keys alone: two that differ elsewhere are equal. Immutable; the methods marked noexcept
// allocate nothing.
class VORTEX_EXPORT RecordFormat {
 public:
  // Without keys, the whole record is one key of bytes. Throws Error(EINVAL) that names the key,
  // the record's length and the limit.
  explicit RecordFormat(std::size_t record_bytes, std::vector<RecordKey> keys = {});

  std::size_t record_bytes() const noexcept { return record_bytes_; }
  const std::vector<RecordKey>& keys() const noexcept { return keys_; }

  // The same keys with ascending and descending exchanged.
  RecordFormat reversed() const;

  // Less than, equal to or greater than 0, as `left` belongs before, beside or behind `right`.
  int compare(const std::byte* left, const std::byte* right) const noexcept;

  // The first 64 bits of the normalised key: if leading_bits(a) < leading_bits(b), then a belongs
  // before b. Where leading_bits_decide(), equal bits mean equal keys.
  std::uint64_t leading_bits(const std::byte* record) const noexcept;
  bool leading_bits_decide() const noexcept { return normalised_bytes_ <= 8; }

  // The keys as one string of bytes that memcmp() orders as compare() orders the records.
  std::size_t normalised_bytes() const noexcept { return normalised_bytes_; }
  void normalise(const std::byte* record, std::byte* normalised) const noexcept;

  bool operator==(const RecordFormat&) const = default;

 private:
  std::size_t record_bytes_;
  std::vector<RecordKey> keys_;
  std::size_t normalised_bytes_ = 0;  // the sum of the keys' lengths
};

// "records of 100 bytes by 0:10:bytes"
VORTEX_EXPORT std::string to_string(const RecordFormat& format);

}  // namespace vortex::inline v0
