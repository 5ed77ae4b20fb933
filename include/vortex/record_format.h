// What a file of records is: how long each is, and by which keys they are ordered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vortex/record_key.h"

namespace vortex::inline v0 {

// Two whole neighbouring records fit in the window of a stream of default blocks.
inline constexpr std::size_t kMostRecordBytes = std::size_t{1} << 20;

// Blocks that a reader or writer of records holds at once: two where records straddle blocks.
inline std::size_t blocks_for_records(std::size_t block_bytes, std::size_t record_bytes) noexcept {
  return block_bytes % record_bytes == 0 ? 1 : 2;
}

// Records of one length, ordered by their keys, the first counting most. Records are compared by
// their keys alone: two that differ elsewhere are equal. Immutable; the methods marked noexcept
// allocate nothing.
class RecordFormat {
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
std::string to_string(const RecordFormat& format);

}  // namespace vortex::inline v0
