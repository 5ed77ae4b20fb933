#include "vortex/stream/pooled_blocks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <span>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/block_memory.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

PooledBlocks::PooledBlocks(const std::string& stream, StreamPool& pool, std::byte* base,
                           std::uint64_t bytes)
    : pool_(pool),
      base_(base),
      block_bytes_(pool.block_bytes()),
      limit_(bytes / block_bytes_),
      owner_pid_(getpid()) {
  slots_bytes_ = detail::round_up(limit_ * sizeof(Slot), os::page_bytes());
  int error = 0;
  slots_ = reinterpret_cast<Slot*>(os::map_memory(nullptr, slots_bytes_, &error));
  if (slots_ == nullptr) {
    throw Error(error, "stream '" + stream + "': the system refuses " + format_bytes(slots_bytes_) +
                           " for the table of its blocks");
  }
}

PooledBlocks::~PooledBlocks() {
  if (getpid() == owner_pid_) os::unmap(reinterpret_cast<std::byte*>(slots_), slots_bytes_);
}

void PooledBlocks::count_with(BlockMeter* meter) noexcept {
  if (meter_ != nullptr) meter_->remove(held());
  meter_ = meter;
  if (meter_ != nullptr) meter_->add(held());
}

int PooledBlocks::open(std::uint64_t index) noexcept {
  switch (state(index)) {
    case BlockState::kEmpty: {
      if (const int error = set_aside(index)) return error;
      const int refused = place(index);
      if (refused != 0) give_back(index);
      return refused;
    }
    case BlockState::kSetAside:
      return place(index);
    case BlockState::kGuarded:
      return unguard(index);
    case BlockState::kOpen:
      break;
  }
  return 0;
}

int PooledBlocks::set_aside(std::uint64_t index) noexcept {
  if (index >= limit_) return ENOSPC;
  const auto [block, error] = pool_.take();
  if (error != 0) return error;
  Slot& slot = slots_[index];
  slot.block_plus_one = block.index + 1;
  slot.state = BlockState::kSetAside;
  extent_.store(std::max(extent(), index + 1), std::memory_order_relaxed);
  held_.fetch_add(1, std::memory_order_relaxed);
  if (meter_ != nullptr) meter_->add(1);
  return 0;
}

int PooledBlocks::place(std::uint64_t index) noexcept {
  const int error = pool_.blocks().place(block(index), base_ + index * block_bytes_);
  if (error == 0) slots_[index].state = BlockState::kOpen;
  return error;
}

int PooledBlocks::guard(std::uint64_t index, std::uint64_t since) noexcept {
  if (const int error = pool_.blocks().set_rights(block(index), Rights::kNone)) return error;
  slots_[index].state = BlockState::kGuarded;
  slots_[index].guarded_at = since;
  return 0;
}

int PooledBlocks::unguard(std::uint64_t index) noexcept {
  const int error = pool_.blocks().set_rights(block(index), Rights::kReadWrite);
  if (error == 0) slots_[index].state = BlockState::kOpen;
  return error;
}

int PooledBlocks::guard_all() noexcept {
  const std::uint64_t now = tick();
  std::array<Block, 64> row;
  for (std::uint64_t index = 0; index < extent();) {
    std::size_t count = 0;
    for (; count < row.size() && index < extent() && state(index) == BlockState::kOpen; ++index) {
      row[count++] = block(index);
      slots_[index].state = BlockState::kGuarded;
      slots_[index].guarded_at = now;
    }
    if (count == 0) ++index;
    const int error = pool_.blocks().set_rights(std::span(row).first(count), Rights::kNone);
    if (error != 0) return error;
  }
  return 0;
}

int PooledBlocks::give_back(std::uint64_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.state == BlockState::kGuarded) {
    if (const int error = unguard(index)) return error;
  }
  const Block block = this->block(index);
  if (slot.state != BlockState::kSetAside) {
    if (const int error = pool_.blocks().withdraw(block)) return error;
  }
  slot.block_plus_one = 0;
  slot.state = BlockState::kEmpty;
  const bool none_left = held_.fetch_sub(1, std::memory_order_relaxed) == 1;
  if (index + 1 == extent()) {
    // A window that moves up has an empty table below it, which is not looked through.
    while (!none_left && state(index - 1) == BlockState::kEmpty) --index;
    extent_.store(none_left ? 0 : index, std::memory_order_relaxed);
  }
  if (meter_ != nullptr) meter_->remove(1);
  pool_.give_back(block);
  return 0;
}

int PooledBlocks::give_back(std::uint64_t first, std::uint64_t end) noexcept {
  for (std::uint64_t index = first; index < std::min(end, extent()); ++index) {
    if (state(index) == BlockState::kEmpty) continue;
    if (const int error = give_back(index)) return error;
  }
  return 0;
}

void PooledBlocks::give_back_all() noexcept {
  for (std::uint64_t index = 0; index < extent(); ++index) {
    if (state(index) == BlockState::kEmpty || give_back(index) == 0) continue;
    pool_.blocks().give_up(block(index));
    pool_.give_back(block(index));
  }
}

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
  if (close()) blocks_->give_back_all();
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
  const bool has_data = before == BlockState::kGuarded;
  if (!has_data && access == Access::kRead) {
    return fail_touch("a read of what was never written, or has been read already", offset);
  }
  // Where the processor does not tell, what holds no data is being written and what is guarded
  // read.
  const bool is_write = access == Access::kWrite || !has_data;
  const int error = is_write ? serve_write(index) : serve_read(index, offset % block_bytes() == 0);
  return error == 0 || fail(error, cause_of(error), offset);
}

void PooledStream::count_with(BlockMeter* meter) noexcept {
  std::lock_guard lock(mutex());
  blocks_->count_with(meter);
}

const char* PooledStream::cause_of(int error) noexcept {
  switch (error) {
    case ENOSPC:
      return "the reservation ends here: raise reserve_bytes";
    case EAGAIN:
      return "every block of its StreamPool is in use: make the pool larger";
    case EFAULT:
      return "used in a forked child, which does not inherit streams";
    default:
      return cannot_move_block(error);
  }
}

}}  // namespace vortex::v0
