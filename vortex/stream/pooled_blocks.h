// The blocks of a stream that lives on a StreamPool, and which of them are guarded.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "vortex/block_pool.h"
#include "vortex/vanishing_array.h"

namespace vortex { inline namespace v0 {

enum class BlockState : std::uint8_t { kEmpty, kSetAside, kOpen, kGuarded };

// A table of the blocks of a PooledStream, which has the words for their states. A guard is the
// whole block with its access forbidden: the block stays where it is and a huge page stays whole,
// which a guard page inside it would split for good. The alternatives are in
// docs/decisions/0002-guard-is-a-block.md.
//
// The caller holds the stream's lock, but for held() and extent(). Nothing allocates once it is
// made.
class PooledBlocks {
 public:
  // For the addresses [base, base + bytes) of the stream with that name. Throws Error(ENOMEM) when
  // the table is refused.
  PooledBlocks(const std::string& stream, StreamPool& pool, std::byte* base, std::uint64_t bytes);
  // The blocks have been given back. A forked child leaves the table, which it does not have.
  ~PooledBlocks();

  BlockState state(std::uint64_t index) const noexcept { return slots_[index].state; }
  // When the guard of a block was set, on the stream's own clock of events.
  std::uint64_t guarded_at(std::uint64_t index) const noexcept { return slots_[index].guarded_at; }
  // One more than the highest block that is held; may be asked without the lock.
  std::uint64_t extent() const noexcept { return extent_.load(std::memory_order_relaxed); }
  std::uint64_t tick() noexcept { return ++clock_; }
  std::size_t held() const noexcept { return held_.load(std::memory_order_relaxed); }

  // See PooledStream::count_with().
  void count_with(BlockMeter* meter) noexcept;

  // Each changes the state of one block and returns 0 or an errno value, with nothing changed.
  int set_aside(std::uint64_t index) noexcept;                   // empty -> set aside
  int open(std::uint64_t index) noexcept;                        // -> open
  int guard(std::uint64_t index, std::uint64_t since) noexcept;  // open -> guarded
  int give_back(std::uint64_t index) noexcept;                   // not empty -> empty

  // Every open block becomes guarded, at one time. After an error some of them do not notice an
  // access.
  int guard_all() noexcept;
  // Gives blocks [first, end) back, until one is refused.
  int give_back(std::uint64_t first, std::uint64_t end) noexcept;

  // For streams that end: gives every block back, and up where the kernel refuses to move it.
  void give_back_all() noexcept;

 private:
  int place(std::uint64_t index) noexcept;
  int unguard(std::uint64_t index) noexcept;

  Block block(std::uint64_t index) const noexcept {
    return Block{slots_[index].block_plus_one - 1};
  }

  struct Slot {
    std::uint32_t block_plus_one;  // 0: none; the table starts as zeros
    BlockState state;
    std::uint64_t guarded_at;
  };

  StreamPool& pool_;
  std::byte* const base_;
  const std::size_t block_bytes_;
  const std::uint64_t limit_;
  Slot* slots_ = nullptr;  // lazily populated by the kernel
  std::size_t slots_bytes_ = 0;
  const int owner_pid_;
  std::atomic<std::uint64_t> extent_{0};
  std::uint64_t clock_ = 0;
  std::atomic<std::size_t> held_{0};
  BlockMeter* meter_ = nullptr;
};

}}  // namespace vortex::v0
