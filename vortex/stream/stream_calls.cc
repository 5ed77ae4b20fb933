#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"

namespace vortex::inline v0 {
namespace {

std::uint64_t end_of(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return offset + std::min(bytes, std::numeric_limits<std::uint64_t>::max() - offset);
}

// The length of the part of [offset, end) that lies within the first block. Such a part can be
// placed whatever the window is.
std::size_t part_at(std::uint64_t offset, std::uint64_t end, std::size_t block_bytes) noexcept {
  return static_cast<std::size_t>(std::min(end - offset, block_bytes - offset % block_bytes));
}

}  // namespace

void write_from_stream(int descriptor, InputStreamBase& stream, std::uint64_t offset,
                       std::uint64_t bytes) {
  const std::uint64_t end = end_of(offset, bytes);
  const auto length = stream.length_bytes();
  if (length && end > *length) {
    throw Error(ERANGE, "stream '" + stream.name() + "': the data end at byte " +
                            std::to_string(*length) + ", before " + std::to_string(end));
  }
  const std::size_t block_bytes = stream.source().pool().block_bytes();
  while (offset < end) {
    const std::size_t part = part_at(offset, end, block_bytes);
    stream.prefault(offset, part);
    const ssize_t written = write(descriptor, stream.bytes() + offset, part);
    if (written >= 0) {
      offset += static_cast<std::uint64_t>(written);
    } else if (errno != EINTR) {
      throw Error(errno,
                  "write from stream '" + stream.name() + "' at byte " + std::to_string(offset));
    }
  }
}

std::uint64_t read_into_stream(int descriptor, OutputStreamBase& stream, std::uint64_t offset,
                               std::uint64_t bytes) {
  const std::uint64_t begin = offset;
  const std::uint64_t end = end_of(offset, bytes);
  const std::size_t block_bytes = stream.sink().pool().block_bytes();
  while (offset < end) {
    const std::size_t part = part_at(offset, end, block_bytes);
    stream.prefault(offset, part);
    const ssize_t got = read(descriptor, stream.bytes() + offset, part);
    if (got == 0) break;
    if (got > 0) {
      offset += static_cast<std::uint64_t>(got);
    } else if (errno != EINTR) {
      throw Error(errno,
                  "read into stream '" + stream.name() + "' at byte " + std::to_string(offset));
    }
  }
  return offset - begin;
}

}  // namespace vortex::inline v0
