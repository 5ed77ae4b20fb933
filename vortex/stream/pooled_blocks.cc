#include "vortex/stream/pooled_blocks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

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

int PooledBlocks::place_empty(std::uint64_t index) noexcept {
  if (index >= limit_) return ENOSPC;
  const auto [block, error] = pool_.take();
  if (error != 0) return error;
  if (const int refused = pool_.blocks().place(block, base_ + index * block_bytes_)) {
    pool_.give_back(block);
    return refused;
  }
  Slot& slot = slots_[index];
  slot.block_plus_one = block.index + 1;
  slot.state = BlockState::kOpen;
  extent_ = std::max(extent_, index + 1);
  held_.fetch_add(1, std::memory_order_relaxed);
  if (meter_ != nullptr) meter_->add(1);
  return 0;
}

int PooledBlocks::guard(std::uint64_t index, std::uint64_t since) noexcept {
  const int error =
      pool_.blocks().set_rights(Block{slots_[index].block_plus_one - 1}, Rights::kNone);
  if (error != 0) return error;
  slots_[index].state = BlockState::kGuarded;
  slots_[index].guarded_at = since;
  return 0;
}

int PooledBlocks::unguard(std::uint64_t index) noexcept {
  const int error =
      pool_.blocks().set_rights(Block{slots_[index].block_plus_one - 1}, Rights::kReadWrite);
  if (error == 0) slots_[index].state = BlockState::kOpen;
  return error;
}

int PooledBlocks::give_back(std::uint64_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.state == BlockState::kGuarded) {
    if (const int error = unguard(index)) return error;
  }
  const Block block{slot.block_plus_one - 1};
  if (const int error = pool_.blocks().withdraw(block)) return error;
  slot.block_plus_one = 0;
  slot.state = BlockState::kEmpty;
  held_.fetch_sub(1, std::memory_order_relaxed);
  if (meter_ != nullptr) meter_->remove(1);
  pool_.give_back(block);
  return 0;
}

void PooledBlocks::give_back_all() noexcept {
  for (std::uint64_t index = 0; index < extent_; ++index) {
    if (state(index) == BlockState::kEmpty || give_back(index) == 0) continue;
    const Block block{slots_[index].block_plus_one - 1};
    pool_.blocks().give_up(block);
    pool_.give_back(block);
  }
}

}}  // namespace vortex::v0
