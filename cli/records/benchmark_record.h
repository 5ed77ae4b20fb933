// Records of 100 bytes in the form of the sort benchmark.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vortex::cli {

inline constexpr std::size_t kBenchmarkRecordBytes = 100;
inline constexpr std::size_t kBenchmarkKeyBytes = 10;

// Where the random bits of a record come from: two independent words.
struct RecordBits {
  std::uint64_t first;
  std::uint64_t second;
};

// Binary: key of 10 bytes, 00 11, the record's number in 32 hexadecimal digits, 88 99 AA BB, 48
// bytes of filler (12 digits, each four times), CC DD EE FF. The key is uniform.
void write_binary_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept;

// ASCII: key of 10 characters from ' ' to '~', two spaces, the number in 32 hexadecimal digits, two
// spaces, 52 bytes of filler, CR LF. The key is uniform.
void write_ascii_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept;

// Skewed keys: the first 6 bytes are one of kSkewedPrefixes values scattered over the whole range.
// They come in 16 groups of 1, 2, 4, ... 32768 values; a record's group is uniform, and so is its
// value in the group, so that the share of a value falls with its rank about as 1/rank and the
// commonest is in every 16th record. The other 4 bytes are uniform.
inline constexpr std::uint64_t kSkewedPrefixes = 65535;
void write_skewed_binary_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept;
void write_skewed_ascii_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept;

}  // namespace vortex::cli
