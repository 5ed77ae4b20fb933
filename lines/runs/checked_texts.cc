#include "lines/runs/checked_texts.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "io/file/block_checksum.h"
#include "io/name/path_names.h"
#include "vortex/error.h"
#include "vortex/os/write_signals.h"

namespace vortex { inline namespace v0 {

namespace {

// Returns an errno value, or 0.
int write_all(int file, std::uint64_t offset, std::span<const char> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = os::without_size_signal(
        [&] { return pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

std::string reading(const BlockFile& file) {
  return "reading a long record from '" + file.name() + "'";
}

void read_all(const BlockFile& file, std::uint64_t offset, std::span<char> to) {
  while (!to.empty()) {
    const ssize_t count =
        pread(file.descriptor(), to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw Error(count < 0 ? errno : EIO, reading(file) + " at byte " + std::to_string(offset));
    }
    to = to.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

template <typename Number>
std::span<char> bytes_of(std::span<Number> numbers) noexcept {
  return {reinterpret_cast<char*>(numbers.data()), numbers.size_bytes()};
}

}  // namespace

CheckedTexts::CheckedTexts() noexcept : own_(random_bits()) {}

std::uint32_t CheckedTexts::checksum(const BlockFile& file, std::uint64_t place,
                                     std::span<const char> piece) const noexcept {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const std::uint64_t of_file = static_cast<std::uint64_t>(file.descriptor()) << 48;
  return block_checksum(reinterpret_cast<const std::byte*>(piece.data()), piece.size()) ^
         static_cast<std::uint32_t>((own_ + of_file + place) * kGolden >> 32);
}

int CheckedTexts::write(const BlockFile& file, std::uint64_t offset, std::string_view text) const {
  if (const int error = write_all(file.descriptor(), offset, text); error != 0) return error;
  std::vector<std::uint32_t> checksums;
  checksums.reserve(static_cast<std::size_t>(pieces(text.size())));
  for (std::size_t at = 0; at < text.size(); at += kPieceBytes) {
    checksums.push_back(checksum(file, offset + at, text.substr(at, kPieceBytes)));
  }
  return write_all(file.descriptor(), offset + text.size(), bytes_of(std::span(checksums)));
}

void CheckedTexts::read(const BlockFile& file, std::uint64_t offset, std::uint64_t text_bytes,
                        std::uint64_t at, std::span<char> to) const {
  read_all(file, offset + at, to);
  std::uint64_t checksum_at = offset + text_bytes + at / kPieceBytes * sizeof(std::uint32_t);
  for (; !to.empty(); checksum_at += sizeof(std::uint32_t)) {
    std::uint32_t expected = 0;
    read_all(file, checksum_at, bytes_of(std::span(&expected, 1)));
    const auto piece = to.first(std::min(to.size(), kPieceBytes));
    if (checksum(file, offset + at, piece) != expected) {
      throw Error(EBADMSG, reading(file) + " at byte " + std::to_string(offset + at) + kOtherBytes);
    }
    to = to.subspan(piece.size());
    at += piece.size();
  }
}

}}  // namespace vortex::v0
