// The blocks of a file that are in memory, wherever in the file they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vortex/block_pool.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// One block of memory, and the block of the file that it holds.
struct HeldBlock {
  static constexpr std::uint32_t kNone = 0xffffffff;
  enum class State : std::uint8_t {
    kFree,
    kReading,
    kReady,   // read, and not placed
    kPlaced,  // the program can touch it
  };

  Block block;              // none before its first use
  std::uint64_t index = 0;  // in the file
  State state = State::kFree;
  std::uint32_t request = kNone;  // the request that fills it, or writes it
  std::uint32_t cursor = kNone;   // the cursor that it is read ahead for
  std::size_t bytes = 0;          // bytes of the file in it, once it is read
  int error = 0;                  // an errno value, likewise

  // For a file that may be changed.
  bool writable = false;  // placed, and the program may change it
  bool dirty = false;     // holds what no write has been requested of yet, or a write failed
  int write_error = 0;    // the errno value of the last write, where that failed
  std::uint64_t dirty_since = 0;    // since when it is dirty, by the clock of WriteBack
  std::uint64_t written_since = 0;  // dirty_since of the contents that are being written
  std::uint64_t written_last = 0;   // when a write was last requested, likewise
  bool watched = false;             // a transfer of the program's own may still write to it
  std::uint64_t sum = 0;            // while watched: the content_sum() that was written

  bool under_way() const noexcept { return request != kNone; }

 private:
  friend class HeldBlocks;
  bool linked_ = false;
  std::uint32_t older_ = kNone;
  std::uint32_t newer_ = kNone;
};

// A fixed number of blocks, found by their place in the file, in the order in which they were
// touched. Not thread-safe. Only the constructor allocates.
class VORTEX_EXPORT HeldBlocks {
 public:
  explicit HeldBlocks(std::size_t capacity);
  HeldBlocks(const HeldBlocks&) = delete;
  HeldBlocks& operator=(const HeldBlocks&) = delete;

  std::size_t capacity() const noexcept { return blocks_.size(); }
  std::size_t free_count() const noexcept { return free_.size(); }

  // Null when the block of the file is not held.
  HeldBlock* find(std::uint64_t index) noexcept { return at(table_[slot_of(index)]); }
  const HeldBlock* find(std::uint64_t index) const noexcept {
    return const_cast<HeldBlocks*>(this)->find(index);
  }

  // One that is free, to hold block `index` of the file, which none does yet; null when all are in
  // use. Its state is for the caller to set. It is in no order.
  HeldBlock* hold(std::uint64_t index) noexcept;
  // The block is free again; its memory stays with it.
  void release(HeldBlock& held) noexcept;

  // Makes the block the newest of the order, or the oldest.
  void touch(HeldBlock& held) noexcept;
  void neglect(HeldBlock& held) noexcept;
  // Puts the block behind the newest `count`.
  void rank_behind(HeldBlock& held, std::size_t count) noexcept;

  // From the oldest to the newest; null at the end.
  HeldBlock* oldest() noexcept { return at(oldest_); }
  HeldBlock* next(const HeldBlock& held) noexcept { return at(held.newer_); }
  // From the newest to the oldest, likewise.
  HeldBlock* newest() noexcept { return at(newest_); }
  HeldBlock* previous(const HeldBlock& held) noexcept { return at(held.older_); }
  // How many the order has.
  std::size_t ordered() const noexcept { return ordered_; }
  // It is one of the newest `count`.
  bool among_newest(const HeldBlock& held, std::size_t count) noexcept;

  template <typename Use>
  void for_each(Use&& use) {
    for (HeldBlock& held : blocks_) use(held);
  }

 private:
  HeldBlock* at(std::uint32_t id) noexcept {
    return id == HeldBlock::kNone ? nullptr : &blocks_[id];
  }
  std::uint32_t id_of(const HeldBlock& held) const noexcept {
    return static_cast<std::uint32_t>(&held - blocks_.data());
  }
  std::size_t ideal_slot(std::uint64_t index) const noexcept;
  std::size_t slot_of(std::uint64_t index) const noexcept;
  void unlink(HeldBlock& held) noexcept;
  // Puts a block that is in no order between two neighbours of the order.
  void link(HeldBlock& held, std::uint32_t older, std::uint32_t newer) noexcept;

  std::vector<HeldBlock> blocks_;
  std::vector<std::uint32_t> free_;   // the last is taken first
  std::vector<std::uint32_t> table_;  // open addressing, at most half full
  unsigned shift_ = 0;
  std::uint32_t oldest_ = HeldBlock::kNone;
  std::uint32_t newest_ = HeldBlock::kNone;
  std::size_t ordered_ = 0;
};

}}  // namespace vortex::v0
