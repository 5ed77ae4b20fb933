// Texts in a file that is not trusted to return what was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/file/block_file.h"

namespace vortex { inline namespace v0 {

// Each text has a checksum of each of its pieces behind it. A checksum depends on the place of the
// piece, and on a number that no other object has: what lay in the file before, or lies elsewhere
// in it, is not taken for what was written.
//
// Any thread. Does not wait for others; calls pread() and pwrite() of the file.
class CheckedTexts {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

  CheckedTexts() noexcept;

  // Of a text of so many bytes in the file.
  static std::uint64_t stored_bytes(std::uint64_t text_bytes) noexcept {
    return text_bytes + pieces(text_bytes) * sizeof(std::uint32_t);
  }
  // Returns 0 or an errno value; a part may have been written then. Throws std::bad_alloc.
  int write(const BlockFile& file, std::uint64_t offset, std::string_view text) const;
  // Of the text of `text_bytes` that lies at `offset`, the bytes from `at` on, which is a multiple
  // of kPieceBytes: a whole piece or more, or up to the end. Throws Error: EBADMSG where the file
  // returns other bytes than were written, EIO where it ends, what reading says.
  void read(const BlockFile& file, std::uint64_t offset, std::uint64_t text_bytes, std::uint64_t at,
            std::span<char> to) const;

 private:
  static std::uint64_t pieces(std::uint64_t text_bytes) noexcept {
    return text_bytes / kPieceBytes + (text_bytes % kPieceBytes != 0 ? 1 : 0);
  }
  std::uint32_t checksum(const BlockFile& file, std::uint64_t place,
                         std::span<const char> piece) const noexcept;

  const std::uint64_t own_;
};

}}  // namespace vortex::v0
