#include "cli/records/benchmark_record.h"

#include <array>
#include <cstring>

#include "cli/records/number_generator.h"

namespace vortex::cli {

namespace {

constexpr char kDigits[] = "0123456789ABCDEF";
constexpr std::size_t kDigitCount = 32;

// Two hexadecimal digits for each value of a byte.
constexpr std::array<char, 512> kDigitPairs = [] {
  std::array<char, 512> pairs{};
  for (std::size_t i = 0; i < 256; ++i) {
    pairs[2 * i] = kDigits[i >> 4];
    pairs[2 * i + 1] = kDigits[i & 15];
  }
  return pairs;
}();

void write_number(std::byte* to, std::uint64_t number) noexcept {
  std::memset(to, '0', kDigitCount / 2);
  for (int i = 0; i < 8; ++i) {
    const std::size_t byte = number >> (56 - 8 * i) & 0xff;
    std::memcpy(to + kDigitCount / 2 + 2 * i, &kDigitPairs[2 * byte], 2);
  }
}

// `count` characters, each four times: one for each group of four bits, out of `alphabet`.
void write_filler(std::byte* to, std::uint64_t bits, int count, const char* alphabet) noexcept {
  for (int i = 0; i < count; ++i) {
    const std::uint32_t four_times =
        0x01010101U * static_cast<unsigned char>(alphabet[bits >> (4 * i) & 15]);
    std::memcpy(to + 4 * i, &four_times, 4);
  }
}

// `count` characters from ' ' to '~', uniform for uniform bits.
void write_printable(std::byte* to, std::uint64_t bits, int count) noexcept {
  __extension__ using Wide = unsigned __int128;
  constexpr unsigned kCharacters = '~' - ' ' + 1;
  for (int i = 0; i < count; ++i) {
    const Wide scaled = static_cast<Wide>(bits) * kCharacters;
    to[i] = static_cast<std::byte>(' ' + static_cast<unsigned>(scaled >> 64));
    bits = static_cast<std::uint64_t>(scaled);
  }
}

std::uint64_t skewed_prefix(std::uint64_t bits) noexcept {
  const std::uint64_t group = std::uint64_t{1} << (bits & 15);
  const std::uint64_t rank = group | (bits >> 16 & (group - 1));  // 1 ... kSkewedPrefixes
  return mix_bits(rank);
}

void write_binary_body(std::byte* record, std::uint64_t number, std::uint64_t bits) noexcept {
  static constexpr unsigned char kAfterKey[] = {0x00, 0x11};
  static constexpr unsigned char kAfterNumber[] = {0x88, 0x99, 0xaa, 0xbb};
  static constexpr unsigned char kEnd[] = {0xcc, 0xdd, 0xee, 0xff};
  std::memcpy(record + 10, kAfterKey, 2);
  write_number(record + 12, number);
  std::memcpy(record + 44, kAfterNumber, 4);
  write_filler(record + 48, bits >> 16, 12, kDigits);
  std::memcpy(record + 96, kEnd, 4);
}

void write_ascii_body(std::byte* record, std::uint64_t number, std::uint64_t bits) noexcept {
  std::memset(record + 10, ' ', 2);
  write_number(record + 12, number);
  std::memset(record + 44, ' ', 2);
  write_filler(record + 46, bits, 13, "ABCDEFGHIJKLMNOP");
  std::memcpy(record + 98, "\r\n", 2);
}

}  // namespace

void write_binary_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept {
  std::memcpy(record, &bits.first, 8);
  std::memcpy(record + 8, &bits.second, 2);
  write_binary_body(record, number, bits.second);
}

void write_ascii_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept {
  write_printable(record, bits.first, 5);
  write_printable(record + 5, bits.second, 5);
  write_ascii_body(record, number, bits.second);
}

void write_skewed_binary_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept {
  const std::uint64_t prefix = skewed_prefix(bits.first);
  const auto suffix = static_cast<std::uint32_t>(bits.first >> 32);
  std::memcpy(record, &prefix, 6);
  std::memcpy(record + 6, &suffix, 4);
  write_binary_body(record, number, bits.second);
}

void write_skewed_ascii_record(std::byte* record, std::uint64_t number, RecordBits bits) noexcept {
  write_printable(record, skewed_prefix(bits.first), 6);
  write_printable(record + 6, bits.second, 4);
  write_ascii_body(record, number, bits.second);
}

}  // namespace vortex::cli
