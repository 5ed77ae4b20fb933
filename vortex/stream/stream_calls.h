// Calls that streams and readers of files have in common: how far an array can be read whose length
// only its end tells, and writing a descriptor with the memory of whatever can be prefaulted.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "vortex/error.h"
#include "vortex/os/write_signals.h"

namespace vortex { inline namespace v0 {

[[noreturn]] inline void refuse_to_read_at(std::uint64_t offset, std::uint64_t reserved) {
  throw Error(ERANGE, "byte " + std::to_string(offset) + " lies beyond the " +
                          format_bytes(reserved) + " of address space that are reserved");
}

// readable_bytes() of InputStreamBase and FileReaderBase. The touch may leave this frame for a
// guarded scope, so nothing here has a destructor.
template <typename Array>
std::uint64_t readable_bytes(const Array& array, std::uint64_t reserved, std::size_t block_bytes,
                             std::uint64_t offset) {
  if (const auto length = array.length_bytes()) return *length;
  if (offset >= reserved) refuse_to_read_at(offset, reserved);
  static_cast<void>(*static_cast<const volatile std::byte*>(array.bytes() + offset));
  return array.length_bytes().value_or((offset / block_bytes + 1) * block_bytes);
}

inline std::uint64_t end_of_range(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return offset + std::min(bytes, std::numeric_limits<std::uint64_t>::max() - offset);
}

// The length of the part of [offset, end) that lies within the first block. Such a part can be
// placed whatever the window is.
inline std::size_t part_within_block(std::uint64_t offset, std::uint64_t end,
                                     std::size_t block_bytes) noexcept {
  return static_cast<std::size_t>(std::min(end - offset, block_bytes - offset % block_bytes));
}

// write_from_stream() for a stream or a reader.
template <typename Readable>
void write_in_parts(int descriptor, Readable& from, const std::string& name,
                    std::size_t block_bytes, std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end = end_of_range(offset, bytes);
  const auto length = from.length_bytes();
  if (length && end > *length) {
    throw Error(ERANGE, "stream '" + name + "': the data end at byte " + std::to_string(*length) +
                            ", before " + std::to_string(end));
  }
  while (offset < end) {
    const std::size_t part = part_within_block(offset, end, block_bytes);
    from.prefault(offset, part);
    const ssize_t written =
        os::without_size_signal([&] { return write(descriptor, from.bytes() + offset, part); });
    if (written >= 0) {
      offset += static_cast<std::uint64_t>(written);
    } else if (errno != EINTR) {
      throw Error(errno, "write from stream '" + name + "' at byte " + std::to_string(offset));
    }
  }
}

}}  // namespace vortex::v0
