// Blocks of a stream that shares its pool with others, opened and given back by calls.
#pragma once

#include <cstdint>

#include "vortex/vanishing_array.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// For code that comes in any order, or that needs an error where a store would fail the stream. May
// be mixed with faults, not called inside one. Each returns 0 or an errno value.
class VORTEX_EXPORT BlockRanges {
 public:
  // Makes [offset, offset + bytes) accessible: draws a block for what has none and takes guards
  // away. ENOSPC beyond the reservation, EAGAIN when the pool is used up, or the kernel's errno. On
  // failure the blocks before the one that failed are accessible.
  static int open(PooledStream& stream, std::uint64_t offset, std::uint64_t bytes) noexcept;

  // Gives every block that lies whole inside [begin, end) back to the pool, whatever is in it. On
  // failure the block that the kernel refused to move and those after it are still held.
  static int give_back(PooledStream& stream, std::uint64_t begin, std::uint64_t end) noexcept;
};

}}}  // namespace vortex::v0::detail
