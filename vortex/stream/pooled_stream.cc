#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/pool/block_memory.h"
#include "vortex/stream/pooled_blocks.h"
#include "vortex/thread/futex.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

namespace {

AddressSpace whole_blocks(std::uint64_t bytes, std::size_t block_bytes) {
  return {.bytes = detail::round_up(bytes, block_bytes)};
}

}  // namespace

PooledStream::PooledStream(std::string name, StreamPool& pool, std::uint64_t reserve_bytes)
    : Stream(std::move(name), whole_blocks(reserve_bytes, pool.block_bytes())),
      pool_(pool),
      blocks_(std::make_unique<PooledBlocks>(this->name(), pool, base(), reserved_bytes())) {}

PooledStream::~PooledStream() = default;

void PooledStream::close_and_give_back() noexcept {
  const bool in_child = inherited();
  close();
  if (!in_child) blocks_->give_back_all();
}

std::size_t PooledStream::held_blocks() const noexcept { return blocks_->held(); }

Stream::Window PooledStream::window() const noexcept { return {0, blocks_->extent()}; }

bool PooledStream::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes();
  const BlockState before = blocks_->state(index);
  if (before == BlockState::kOpen) {
    note_spurious_fault();
    return true;
  }
  if (before == BlockState::kEmpty && access == Access::kRead) {
    return fail_touch("a read of what was never written, or has been read already", offset);
  }
  // Where the processor does not tell, what is empty is being written and what is guarded read.
  const bool is_write =
      access == Access::kWrite || (access == Access::kUnknown && before == BlockState::kEmpty);
  const int error = is_write ? serve_write(index) : serve_read(index, offset % block_bytes() == 0);
  return error == 0 || fail(error, cause_of(error), offset);
}

void PooledStream::count_with(BlockMeter* meter) noexcept {
  std::lock_guard lock(mutex());
  blocks_->count_with(meter);
}

int PooledStream::open_range(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes == 0) return 0;
  if (offset > reserved_bytes() || bytes > reserved_bytes() - offset) return ENOSPC;
  std::lock_guard lock(mutex());
  for (std::uint64_t index = offset / block_bytes(); index * block_bytes() < offset + bytes;
       ++index) {
    int error = 0;
    if (blocks_->state(index) == BlockState::kEmpty) error = blocks_->place_empty(index);
    if (blocks_->state(index) == BlockState::kGuarded) error = blocks_->unguard(index);
    if (error != 0) return error;
  }
  return 0;
}

int PooledStream::give_back_range(std::uint64_t begin, std::uint64_t end) noexcept {
  std::lock_guard lock(mutex());
  const std::uint64_t last = std::min(end / block_bytes(), blocks_->extent());
  for (std::uint64_t index = detail::units_for(begin, block_bytes()); index < last; ++index) {
    if (blocks_->state(index) == BlockState::kEmpty) continue;
    if (const int error = blocks_->give_back(index)) return error;
  }
  return 0;
}

const char* PooledStream::cause_of(int error) noexcept {
  switch (error) {
    case ENOSPC:
      return "the reservation ends here: raise reserve_bytes";
    case EAGAIN:
      return "every block of its StreamPool is in use: make the pool larger";
    default:
      return cannot_move_block(error);
  }
}

}}  // namespace vortex::v0
