#include "vortex/detail/stream/block_ranges.h"

#include <cerrno>
#include <mutex>

#include "vortex/detail/stream/saturating.h"
#include "vortex/stream/pooled_blocks.h"
#include "vortex/thread/futex.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

template <typename Use>
int PooledStream::for_blocks_of(std::uint64_t offset, std::uint64_t bytes,
                                const Use& use) noexcept {
  if (bytes == 0) return 0;
  if (inherited()) return EFAULT;
  if (offset > reserved_bytes() || bytes > reserved_bytes() - offset) return ENOSPC;
  std::lock_guard lock(mutex());
  for (std::uint64_t index = offset / block_bytes(); index * block_bytes() < offset + bytes;
       ++index) {
    if (const int error = use(index)) return error;
  }
  return 0;
}

int PooledStream::set_aside(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return for_blocks_of(offset, bytes, [this](std::uint64_t index) {
    return blocks_->state(index) == BlockState::kEmpty ? blocks_->set_aside(index) : 0;
  });
}

int detail::BlockRanges::open(PooledStream& stream, std::uint64_t offset,
                              std::uint64_t bytes) noexcept {
  return stream.for_blocks_of(offset, bytes,
                              [&](std::uint64_t index) { return stream.blocks().open(index); });
}

int detail::BlockRanges::give_back(PooledStream& stream, std::uint64_t begin,
                                   std::uint64_t end) noexcept {
  if (stream.inherited()) return EFAULT;
  std::lock_guard lock(stream.mutex());
  const std::size_t block_bytes = stream.block_bytes();
  return stream.blocks().give_back(units_for(begin, block_bytes), end / block_bytes);
}

}}  // namespace vortex::v0
