// The window of blocks that moves forward through a stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vortex/block_pool.h"
#include "vortex/os/map_budget.h"
#include "vortex/os/reservation.h"

namespace vortex { inline namespace v0 {

// The window is [newest - comeback, newest], where newest is the highest block touched. Its blocks
// are placed at their addresses of the stream; those below are finished for good.
class BlockWindow {
 public:
  // `other_side` supplies or takes the blocks and guarantees `blocks` of them.
  struct OtherSide {
    const char* what;  // "source" or "sink"
    BlockPool& pool;
    std::size_t guaranteed_blocks;
    Rights rights;  // of the program to a placed block; moved ones can always be written
  };
  // `stream` is its name, `range` its addresses, which must outlive this. Throws Error: EINVAL when
  // the window needs more blocks than are guaranteed, ENOMEM when the maps of stale blocks would
  // exceed vm.max_map_count.
  BlockWindow(const std::string& stream, Reservation& range, const OtherSide& other_side,
              std::size_t comeback_blocks, StaleBlocks stale_blocks);

  std::size_t window_blocks() const noexcept { return window_blocks_; }
  std::size_t block_bytes() const noexcept { return block_bytes_; }
  BlockPool& pool() noexcept { return pool_; }

  // The lowest block of the window, and one more than the highest block touched.
  std::uint64_t floor() const noexcept {
    return next_ > window_blocks_ ? next_ - window_blocks_ : 0;
  }
  std::uint64_t next() const noexcept { return next_; }
  void move_on_to(std::uint64_t index) noexcept { next_ = index + 1; }

  // See InputStreamBase::home_of().
  const std::byte* home_of(const void* at) noexcept;

  // Nothing, when the block is not placed.
  Block placed(std::uint64_t index) const noexcept {
    const Slot& slot = slots_[index % window_blocks_];
    return slot.index == index ? slot.block : Block{};
  }
  // Whether it may still be placed, or be touched without being placed.
  bool is_vacant(std::uint64_t index) const noexcept { return index >= floor() && !placed(index); }
  // Each returns 0 or an errno value, with nothing changed.
  int place(Block block, std::uint64_t index) noexcept;
  int send_home(std::uint64_t index) noexcept;
  // For streams that end: sends a placed block home, or gives it up where the kernel refuses to
  // move it, and makes its slot free.
  Block take_back(std::uint64_t index) noexcept;
  // Before blocks below `floor` change hands: in a pool of aliases, vacates them, unless so few may
  // stay. send_home() does nothing for them then.
  int leave_behind(std::uint64_t floor) noexcept;
  // Makes the slot of a placed block free, wherever the block is.
  Block forget(std::uint64_t index) noexcept {
    return std::exchange(slots_[index % window_blocks_].block, Block{});
  }
  // The blocks of the window that are placed, in no order.
  template <typename Use>
  void for_each_placed(Use&& use) {
    for (const Slot& slot : slots_) {
      if (slot.block) use(slot.index);
    }
  }

  // Gives back the page tables of what lies below block `floor`, which will not be touched again.
  void reclaim_page_tables(std::uint64_t floor) noexcept {
    page_tables_.finished_below(range_.begin() + floor * block_bytes_);
  }
  // When the stream ends and has given up its blocks: nothing stays mapped.
  void vacate_all() noexcept;

  // Whether [offset, offset + bytes) can be placed as a whole, where the stream ends at `end`.
  // Throws Error: EINVAL when it spans more than the window or begins behind it, ERANGE when it
  // goes beyond the end; `what_ends` says what is there.
  void require_within(std::uint64_t offset, std::size_t bytes, std::uint64_t end,
                      const char* what_ends) const;

  // Calls serve(offset of the first byte) for each block of the range that is not placed, until it
  // returns false.
  template <typename Serve>
  void for_each_missing(std::uint64_t offset, std::size_t bytes, Serve&& serve) {
    const std::uint64_t last = (offset + bytes - 1) / block_bytes_;
    for (std::uint64_t index = offset / block_bytes_; index <= last; ++index) {
      if (!placed(index) && !serve(std::max(offset, index * block_bytes_))) break;
    }
  }

 private:
  struct Slot {
    Block block;
    std::uint64_t index = 0;
  };

  const std::string& stream_;
  Reservation& range_;
  BlockPool& pool_;
  std::size_t block_bytes_;
  std::size_t window_blocks_;
  std::vector<Slot> slots_;  // block `index` is in slot index % window_blocks_
  std::uint64_t next_ = 0;
  PageTableReclaimer page_tables_;
  const Rights rights_;
  const StaleBlocks stale_blocks_;
  std::optional<MapBudget> stale_maps_;
  std::uint64_t vacated_ = 0;  // of aliases: nothing below is mapped
};

}}  // namespace vortex::v0
