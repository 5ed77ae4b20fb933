// All physical memory of one budget, in blocks that can be placed anywhere and always come home.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vortex/block.h"
#include "vortex/os/futex.h"
#include "vortex/os/map_budget.h"
#include "vortex/reservation.h"

namespace vortex::inline v0 {

class BlockMemory;
class BlockQuota;

inline constexpr std::size_t kDefaultBlockBytes = std::size_t{2} << 20;
inline constexpr std::size_t kLeastBlockBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMostBlockBytes = std::size_t{64} << 20;

enum class Warming {
  kBackground,  // a thread populates blocks while the first ones are in use; takers overtake it
  kEager,       // the constructor populates every block before it returns
  kOnDemand,    // each block is populated when it is first taken
};

// How a block comes to lie where it is needed.
enum class PoolKind {
  kOneThread,  // the best kind for blocks that one thread uses: moves, or aliases where the kernel
               // cannot move safely (before Linux 5.7)
  kThreads,    // the best kind for blocks that threads pass to each other: aliases, or moves where
               // the system has no memory that can be mapped twice
  kMoves,      // private memory that is moved, or an error. Taking a block away from an address
               // interrupts every processor that runs a thread of the process
  kAliases,    // shared memory (memfd) that is mapped where it is needed, or an error. Mapping
               // interrupts nobody, and what lies behind can be vacated many blocks at a time
};

// What may be done with a block at an address of its own.
enum class Rights { kRead, kReadWrite };

// How many blocks behind its window a stream on a pool of aliases leaves mapped at most, so that
// one system call vacates them all: taking a mapping away interrupts every processor that runs a
// thread of the process, whether it covers one block or many.
//
// 0 is exact: a block is vacated before anybody else gets it, and a touch behind the window is the
// stream's error. Otherwise a touch of one of these blocks that should be an error reads what the
// block holds by then, and a write changes it: something of the same pool, for the memory behind it
// never belongs to anybody else. They take no memory, though top counts them.
//
// In builds without optimisation and under sanitizers every stream is exact, and so is one on a
// pool that moves its blocks.
using StaleBlocks = std::size_t;

struct BlockPoolOptions {
  std::size_t pool_bytes = 0;   // the hard limit; rounded down to whole blocks
  std::size_t block_bytes = 0;  // a multiple of the page, 16 KiB to 64 MiB; 0: 2 MiB, or the least
                                // multiple of it with which the pool fits vm.max_map_count
  Warming warming = Warming::kBackground;
  PoolKind kind = PoolKind::kOneThread;
  // Ask for transparent huge pages. Blocks below 2 MiB lose them when they are placed, but go on
  // lying side by side in memory, so that a disk is told of one piece instead of one for each page.
  // For aliases this needs Linux 6.1 (MADV_COLLAPSE).
  bool huge_pages = true;
  bool in_core_dumps = false;  // blocks are left out of core dumps unless asked for
  bool checked_homes =
      false;  // moves: make a touch of a block's home while it is placed elsewhere a crash (a
              // system call more for each placement) instead of a lost write
  std::string name = "pool";  // for messages
};

// Blocks of one size with one hard limit: the sum of the blocks is all the memory the pool's users
// ever take, whatever they do. Memory is acquired once and recycled, never given back before the
// pool ends: first touch of fresh memory is the slowest thing a stream could do.
//
// A block is *resting* at its home, one fixed address in the pool's range (home()), where disks
// read and write it, or *placed* at an address of somebody's reservation. place() and withdraw()
// take it from one to the other; at no instant is either address free for another thread's mmap to
// take.
//
// In a pool of aliases (aliases()) the home stays mapped all the while, and shows the same bytes:
// disks and system calls may use it whatever is mapped elsewhere. There a block can be mapped at
// more addresses with map_also(), which the pool does not keep account of. A page that is mapped
// twice is counted twice in the resident size that top shows, but takes memory once, and the
// control group is charged once.
//
// Takers draw through a BlockQuota. Everything but the constructor and destructor may be called
// inside a fault, from any thread; place/withdraw/home of one block only by its owner. A forked
// child does not inherit the blocks.
class BlockPool {
 public:
  // Throws Error: EINVAL for sizes out of range, ENOMEM when the system refuses (naming
  // max_map_count or RLIMIT_AS where they are why), EFBIG when RLIMIT_FSIZE forbids aliases, and
  // what the kernel says when it lacks the kind that was asked for. Blocks only while warming
  // eagerly.
  explicit BlockPool(const BlockPoolOptions& options);
  // Every quota must be gone; a pool that is destroyed under a user ends the process with a line
  // that says so, since its memory would be pulled from under a stream.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // What the kernel's limit on maps must leave for a pool of so many blocks, see MapBudget.
  static constexpr std::size_t maps_needed(std::size_t blocks) noexcept { return 2 * blocks + 2; }
  // What the pool keeps of each block besides.
  static constexpr std::size_t kTableBytes = sizeof(std::byte*) + 2 * sizeof(std::uint32_t);

  std::size_t block_bytes() const noexcept { return block_bytes_; }
  std::size_t block_count() const noexcept { return block_count_; }
  std::size_t pool_bytes() const noexcept { return block_bytes_ * block_count_; }
  const std::string& name() const noexcept { return name_; }
  bool aliases() const noexcept { return aliases_; }

  // The homes of all blocks: one contiguous range, fixed for the life of the pool, in block order.
  std::byte* homes() const noexcept { return homes_; }
  std::byte* home(Block block) const noexcept {
    return homes_ + std::size_t{block.index} * block_bytes_;
  }
  // Where the block is now: its home or where it was placed; null when it is lost.
  std::byte* where(Block block) const noexcept { return where_[block.index]; }
  bool resting(Block block) const noexcept { return where(block) == home(block); }

  // Takes the block, from wherever it is, to `address` (block-aligned within a reservation that the
  // caller owns). Contents go with it; nothing is copied. Returns 0 or an errno value; on failure
  // the block is where it was, or lost if the kernel moved it and then refused the rest.
  int place(Block block, std::byte* address) noexcept;

  // Takes the block home and leaves bare reservation behind. Returns and fails like place().
  int withdraw(Block block) noexcept;

  // For a block that the kernel refuses to move home while its user has to go: the block stays
  // where it is, its memory goes with the reservation that holds it, and the pool has one block
  // less from now on. It is given back like any other; place() of it fails with ENOMEM.
  void give_up(Block block) noexcept { where_[block.index] = nullptr; }
  bool lost(Block block) const noexcept { return where_[block.index] == nullptr; }

  // Aliases only: maps `count` blocks that follow each other in the pool, all of the caller's, at
  // `address` as well, beside every other address they have. Whoever maps them there vacates that
  // range, as many blocks at once as he likes (Reservation::vacate()), and until then it shows what
  // the blocks hold, whoever owns them by then. Each range costs up to two maps that the pool has
  // not claimed (MapBudget). Returns 0 or an errno value, EOPNOTSUPP in a pool that moves; on
  // failure nothing is mapped there.
  int map_also(Block first, std::size_t count, std::byte* address, Rights rights) noexcept;

  struct Statistics {
    std::size_t blocks_in_use = 0;  // taken by quotas now, and those lost
    std::size_t blocks_lost = 0;    // given up, since the kernel refused to move them
    std::size_t peak_blocks_in_use = 0;
    std::size_t blocks_guaranteed = 0;  // sum of the minimums of all quotas
    std::size_t blocks_populated = 0;   // that have memory behind them
    std::uint64_t placements = 0;
    std::uint64_t withdrawals = 0;
  };
  Statistics statistics() const noexcept;

  // True in a forked child: the object was copied, the blocks were not, and nothing may be moved.
  bool inherited() const noexcept;

  // Waits until warming is over: every block populated, or the first error. Throws Error(ENOMEM)
  // when the memory cannot be had. Not inside a fault.
  void wait_until_warm();

 private:
  friend class BlockQuota;

  // For BlockQuota, which passes its own bookkeeping; all of it changes under `mutex_`.
  void admit(const BlockQuota& quota);
  void dismiss(const BlockQuota& quota) noexcept;
  BlockGrant take(BlockQuota& quota) noexcept;
  void give_back(BlockQuota& quota, Block block) noexcept;

  // How much of the pool, from its beginning on, is to lie on huge pages. Blocks below their size
  // that fill whole ones are populated together.
  std::size_t plan_huge_pages() noexcept;
  // Blocks, one after the other, that are populated together.
  struct ColdBlocks {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  // Under `mutex_`. None: a count of 0.
  ColdBlocks take_cold() noexcept;
  void give_back_cold(ColdBlocks blocks) noexcept;
  int populate(ColdBlocks blocks) noexcept;
  void push_warm(std::uint32_t index) noexcept;
  std::uint32_t pop_warm() noexcept;
  // Populates blocks that never were, and pushes them to `warm_blocks_`. False: none left, or an
  // error.
  bool warm_some(int* error) noexcept;
  static void* warm_in_background(void* pool) noexcept;
  void stop_warming() noexcept;

  std::string name_;
  std::size_t block_bytes_;
  std::size_t block_count_;
  std::optional<MapBudget> map_budget_;
  std::unique_ptr<BlockMemory> memory_;
  bool aliases_ = false;
  std::byte* homes_ = nullptr;
  std::vector<std::byte*> where_;

  mutable FutexMutex mutex_;
  // Neither grows beyond its first capacity. A stack, since the block used last is the warmest in
  // cache; among aliases a heap with the lowest on top, since neighbours that are mapped one after
  // the other share a map.
  std::vector<std::uint32_t> warm_blocks_;
  std::vector<std::uint32_t> cold_blocks_;  // never populated yet
  // Blocks below 2 MiB that fill whole huge pages are populated together.
  std::uint32_t blocks_in_huge_page_ = 1;
  std::uint32_t whole_huge_pages_ = 0;
  std::size_t in_use_ = 0;
  std::size_t lost_ = 0;  // of those; they stay in use
  std::size_t peak_in_use_ = 0;
  std::size_t guaranteed_ = 0;  // sum of minimums
  std::size_t unclaimed_ = 0;   // of those, blocks not held at present
  std::size_t quotas_ = 0;
  std::size_t populated_ = 0;

  std::atomic<std::uint64_t> placements_{0};
  std::atomic<std::uint64_t> withdrawals_{0};
  std::atomic<bool> stop_warming_{false};
  FutexMutex warmer_mutex_;  // who joins the thread
  pthread_t warmer_{};
  bool warmer_runs_ = false;
  int owner_pid_ = 0;
};

}  // namespace vortex::inline v0
