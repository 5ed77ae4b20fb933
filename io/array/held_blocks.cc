#include "io/array/held_blocks.h"

#include <bit>

namespace vortex { inline namespace v0 {

HeldBlocks::HeldBlocks(std::size_t capacity)
    : blocks_(capacity), table_(std::bit_ceil(2 * capacity + 2), HeldBlock::kNone) {
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(table_.size()));
  free_.reserve(capacity);
  for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
}

std::size_t HeldBlocks::ideal_slot(std::uint64_t index) const noexcept {
  return static_cast<std::size_t>((index * 0x9E3779B97F4A7C15) >> shift_);
}

// Where the block is, or would be.
std::size_t HeldBlocks::slot_of(std::uint64_t index) const noexcept {
  std::size_t slot = ideal_slot(index);
  while (table_[slot] != HeldBlock::kNone && blocks_[table_[slot]].index != index) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  return slot;
}

HeldBlock* HeldBlocks::hold(std::uint64_t index) noexcept {
  if (free_.empty()) return nullptr;
  const std::uint32_t id = free_.back();
  free_.pop_back();
  HeldBlock& held = blocks_[id];
  held.index = index;
  held.request = held.cursor = HeldBlock::kNone;
  held.bytes = 0;
  held.error = 0;
  held.writable = held.dirty = held.watched = false;
  held.write_error = 0;
  table_[slot_of(index)] = id;
  return &held;
}

void HeldBlocks::release(HeldBlock& held) noexcept {
  unlink(held);
  // Entries behind the gap move up, unless they are where they belong.
  const std::size_t mask = table_.size() - 1;
  std::size_t gap = slot_of(held.index);
  for (std::size_t slot = (gap + 1) & mask; table_[slot] != HeldBlock::kNone;
       slot = (slot + 1) & mask) {
    const std::size_t ideal = ideal_slot(blocks_[table_[slot]].index);
    if (((slot - ideal) & mask) < ((slot - gap) & mask)) continue;
    table_[gap] = table_[slot];
    gap = slot;
  }
  table_[gap] = HeldBlock::kNone;
  held.state = HeldBlock::State::kFree;
  free_.push_back(id_of(held));
}

bool HeldBlocks::among_newest(const HeldBlock& held, std::size_t count) noexcept {
  const HeldBlock* one = newest();
  for (; count > 0 && one != nullptr; --count, one = previous(*one)) {
    if (one == &held) return true;
  }
  return false;
}

void HeldBlocks::unlink(HeldBlock& held) noexcept {
  if (!held.linked_) return;
  HeldBlock* const older = at(held.older_);
  HeldBlock* const newer = at(held.newer_);
  (older != nullptr ? older->newer_ : oldest_) = held.newer_;
  (newer != nullptr ? newer->older_ : newest_) = held.older_;
  held.linked_ = false;
  --ordered_;
}

void HeldBlocks::link(HeldBlock& held, std::uint32_t older, std::uint32_t newer) noexcept {
  const std::uint32_t id = id_of(held);
  held.older_ = older;
  held.newer_ = newer;
  (older != HeldBlock::kNone ? blocks_[older].newer_ : oldest_) = id;
  (newer != HeldBlock::kNone ? blocks_[newer].older_ : newest_) = id;
  held.linked_ = true;
  ++ordered_;
}

void HeldBlocks::touch(HeldBlock& held) noexcept {
  unlink(held);
  link(held, newest_, HeldBlock::kNone);
}

void HeldBlocks::neglect(HeldBlock& held) noexcept {
  unlink(held);
  link(held, HeldBlock::kNone, oldest_);
}

void HeldBlocks::rank_behind(HeldBlock& held, std::size_t count) noexcept {
  unlink(held);
  std::uint32_t newer = HeldBlock::kNone;
  std::uint32_t older = newest_;
  for (; count > 0 && older != HeldBlock::kNone; --count) {
    newer = older;
    older = blocks_[older].older_;
  }
  link(held, older, newer);
}

}}  // namespace vortex::v0
