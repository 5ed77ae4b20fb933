// A checksum of records that does not depend on their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vortex::cli {

// The sum, modulo 2^64, of the XXH3 hash (64 bits, no seed) of each record: the same before and
// after sorting, and the checksum of a whole is the sum of those of its parts.
class RecordChecksum {
 public:
  explicit RecordChecksum(std::size_t record_bytes) noexcept : record_bytes_(record_bytes) {}

  void add(const std::byte* records, std::size_t count) noexcept;
  std::uint64_t value() const noexcept { return sum_; }

 private:
  std::size_t record_bytes_;
  std::uint64_t sum_ = 0;
};

// Sixteen hexadecimal digits, and back. Throws Error(EINVAL).
std::string checksum_text(std::uint64_t checksum);
std::uint64_t parse_checksum(const std::string& text);

}  // namespace vortex::cli
