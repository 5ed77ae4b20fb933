#include <unistd.h>

#include <cerrno>

#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/output_stream.h"
#include "vortex/stream/stream_calls.h"

namespace vortex { inline namespace v0 {

void write_from_stream(int descriptor, InputStreamBase& stream, std::uint64_t offset,
                       std::uint64_t bytes) {
  write_in_parts(descriptor, stream, stream.name(), stream.source().pool().block_bytes(), offset,
                 bytes);
}

std::uint64_t read_into_stream(int descriptor, OutputStreamBase& stream, std::uint64_t offset,
                               std::uint64_t bytes) {
  const std::uint64_t begin = offset;
  const std::uint64_t end = end_of_range(offset, bytes);
  const std::size_t block_bytes = stream.sink().pool().block_bytes();
  while (offset < end) {
    const std::size_t part = part_within_block(offset, end, block_bytes);
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

}}  // namespace vortex::v0
