#include "cli/records/record_checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <charconv>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

// A length that the compiler knows is worth a factor of two.
template <std::size_t kRecordBytes>
std::uint64_t sum_of_hashes(const std::byte* records, std::size_t count,
                            std::size_t record_bytes) noexcept {
  const std::size_t bytes = kRecordBytes != 0 ? kRecordBytes : record_bytes;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += XXH3_64bits(records + i * bytes, bytes);
  return sum;
}

}  // namespace

void RecordChecksum::add(const std::byte* records, std::size_t count) noexcept {
  switch (record_bytes_) {
    case 4:
      sum_ += sum_of_hashes<4>(records, count, record_bytes_);
      break;
    case 8:
      sum_ += sum_of_hashes<8>(records, count, record_bytes_);
      break;
    case 16:
      sum_ += sum_of_hashes<16>(records, count, record_bytes_);
      break;
    case 100:
      sum_ += sum_of_hashes<100>(records, count, record_bytes_);
      break;
    default:
      sum_ += sum_of_hashes<0>(records, count, record_bytes_);
  }
}

std::string checksum_text(std::uint64_t checksum) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[15 - i] = "0123456789abcdef"[checksum >> (4 * i) & 15];
  return text;
}

std::uint64_t parse_checksum(const std::string& text) {
  std::uint64_t checksum = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
  if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size()) {
    throw Error(EINVAL, "checksum '" + text + "' is not 16 hexadecimal digits");
  }
  return checksum;
}

}  // namespace vortex::cli
