// All physical memory of one budget, in blocks that can be placed anywhere and always come home,
// and the shares of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vortex/detail/stream/saturating.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Names one block of a pool: an index, cheap to copy. The holder owns the block from take to give
// back. That is a convention, which the type does not enforce.
struct Block {
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t index = kNone;

  explicit operator bool() const noexcept { return index != kNone; }
  friend bool operator==(Block, Block) = default;
};

// The answer to a request for a block.
struct BlockGrant {
  Block block;    // resting, contents unspecified; none when error is not 0
  int error = 0;  // EAGAIN: a maximum is reached or the pool has no block to spare; ENOMEM: the
                  // system refused the memory for a block not populated yet
};

class BlockQuota;

inline constexpr std::size_t kDefaultBlockBytes = std::size_t{2} << 20;
inline constexpr std::size_t kMinBlockBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMaxBlockBytes = std::size_t{64} << 20;
// The most blocks that a pool can have, and so the most blocks, requests and walks that an option
// of a stream can ask for: for more, constructors throw Error(EINVAL) that names the option, and
// Error(ENOMEM) where these need more memory than there is.
inline constexpr std::size_t kMaxPoolBlocks = Block::kNone;

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

// The accesses that a block allows at an address.
enum class Rights { kNone, kRead, kReadWrite };

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
  // The hard limit; rounded down to whole blocks, of which there are at most kMaxPoolBlocks.
  std::size_t pool_bytes = 0;
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
  // Blocks that will be placed at once at most, for whose maps there must be room; 0: all. See
  // BlockPool::expect_placed().
  std::size_t most_placed = 0;
};

// Blocks of one size with one hard limit: the sum of the blocks is all the memory the pool's users
// ever take, whatever they do. Memory is acquired once and recycled, and given back before the pool
// ends only by retire(): first touch of fresh memory is the slowest thing a stream could do.
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
class VORTEX_EXPORT BlockPool {
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

  // The number of maps that the kernel must still grant (vm.max_map_count) for a pool of `blocks`
  // blocks. A placed block costs two in the worst case: itself and the reservation behind it. A
  // pool claims its maps when it is made, those of the blocks that are expected to be placed.
  static constexpr std::size_t maps_needed(std::size_t blocks) noexcept {
    return detail::saturating_sum(detail::saturating_product(blocks, 2), 2);
  }
  // The bytes that the pool keeps for each block, besides the block itself.
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

  // Takes the block home and leaves bare reservation behind. Returns and fails like place(). `had`
  // tells what could be done to it where it was. Under the engine userfaultfd pages that a direct
  // transfer of the program's still reads cannot be moved: one that could only be read comes home
  // as a copy then, and the transfer keeps the pages, beside the pool, until it ends.
  int withdraw(Block block, Rights had = Rights::kReadWrite) noexcept;

  // The same while other threads may be reading the block where it is: from one instant on they
  // fault there. During a withdraw() they could read zeros for a moment. In a pool that moves it
  // takes two system calls more.
  int withdraw_from_readers(Block block, Rights had = Rights::kReadWrite) noexcept;

  // place() of a resting block that can only be read there, from the first instant on: a write of
  // any thread faults. In a pool that moves it takes two system calls more, and under the engine
  // userfaultfd a copy of the block.
  int place_to_read(Block block, std::byte* address) noexcept;
  // Sets the accesses that a placed block allows where it is; it stays there. Returns 0 or an errno
  // value. A withdraw_from_readers() allows everything again.
  int set_rights(Block block, Rights rights) noexcept;
  // The same of blocks that are placed one behind the other: one system call, but under the engine
  // userfaultfd. After an error some of them may have the rights, and others not.
  int set_rights(std::span<const Block> row, Rights rights) noexcept;

  // For a block that the kernel refuses to move home while its user has to go: the block stays
  // where it is, its memory goes with the reservation that holds it, and the pool has one block
  // less from now on. It is given back like any other; place() of it fails with ENOMEM.
  void give_up(Block block) noexcept { where_[block.index] = nullptr; }
  bool lost(Block block) const noexcept { return where_[block.index] == nullptr; }

  // Aliases only: maps `count` blocks that follow each other in the pool, all of the caller's, at
  // `address` as well, beside every other address they have. The caller vacates that range later,
  // as many blocks at once as it likes (Stream::vacate()). Until then the range shows what the
  // blocks hold, whoever owns them by then. Each range costs up to two maps that the pool has not
  // claimed. Returns 0 or an errno value, EOPNOTSUPP in a pool that moves; on failure nothing is
  // mapped there.
  int map_also(Block first, std::size_t count, std::byte* address, Rights rights) noexcept;

  // Gives the memory of up to `blocks` blocks that nobody holds or is guaranteed back to the
  // system for good. block_count() still tells how many blocks the pool had at first. Returns how
  // many blocks it gave back: fewer than `blocks` where fewer are free, or where they share a huge
  // page with others, which is populated before, and the system refuses that.
  std::size_t retire(std::size_t blocks) noexcept;

  struct Statistics {
    std::size_t blocks_in_use = 0;  // taken by quotas now, those lost, and those retired
    std::size_t blocks_lost = 0;    // given up, since the kernel refused to move them
    std::size_t blocks_retired = 0;
    std::size_t peak_blocks_in_use = 0;
    std::size_t blocks_guaranteed = 0;  // sum of the minimums of all quotas
    std::size_t blocks_populated = 0;   // that have memory behind them
    std::uint64_t placements = 0;
    std::uint64_t withdrawals = 0;
  };
  Statistics statistics() const noexcept;

  // Allows `blocks` blocks to be placed at once, never fewer than before. Throws Error(ENOMEM)
  // that names vm.max_map_count, with nothing changed. Not inside a fault.
  void expect_placed(std::size_t blocks);

  // False under the engine userfaultfd: the kernel does not move pages that a disk has been told of
  // for good (io_uring's registered buffers).
  bool may_be_pinned() const noexcept;

  // True in a forked child: the object was copied, the blocks were not, and nothing may be moved.
  bool inherited() const noexcept;

  // Waits until warming is over: every block populated, or the first error. Throws Error(ENOMEM)
  // when the memory cannot be had. Not inside a fault.
  void wait_until_warm();

 private:
  friend class BlockQuota;
  struct State;

  int take_home(Block block, Rights had, bool from_readers) noexcept;

  std::string name_;
  std::size_t block_bytes_;
  std::size_t block_count_;
  bool aliases_ = false;
  std::byte* homes_ = nullptr;
  std::vector<std::byte*> where_;
  const std::unique_ptr<State> state_;
};

// One user's share of a pool: a guaranteed minimum and a maximum.
//
// Draws blocks from a pool. Admission happens here, outside faults: the constructor sets `minimum`
// blocks aside or throws, so that no thread ever waits inside a fault for memory that only it could
// free. Above the minimum, try_take() succeeds while the pool has blocks that nobody else is
// guaranteed.
//
// try_take() and give_back() may be called inside a fault and from any thread. Quotas of one pool
// may pass blocks to each other: one gives back, the other takes.
class VORTEX_EXPORT BlockQuota {
 public:
  static constexpr std::size_t kNoMaximum = static_cast<std::size_t>(-1);

  // Throws Error(ENOMEM) when `minimum` blocks cannot be guaranteed, naming the pool, what others
  // hold and the pool size that would do. `user` names this quota in messages.
  BlockQuota(BlockPool& pool, std::size_t minimum, std::size_t maximum, std::string user);
  // Every block must have been given back; otherwise the process ends with a line that says so.
  ~BlockQuota();
  BlockQuota(const BlockQuota&) = delete;
  BlockQuota& operator=(const BlockQuota&) = delete;

  // See BlockGrant.
  BlockGrant try_take() noexcept;
  // The block must be resting (withdraw it first), or lost (BlockPool::give_up).
  void give_back(Block block) noexcept;

  // Minimum and maximum are `blocks` from now on, where they were more: those held, if that is
  // more.
  void lower_to(std::size_t blocks) noexcept;

  BlockPool& pool() const noexcept { return pool_; }
  // Blocks taken and not given back, and those that are lost.
  std::size_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  std::size_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::size_t minimum() const noexcept { return minimum_.load(std::memory_order_relaxed); }
  std::size_t maximum() const noexcept { return maximum_.load(std::memory_order_relaxed); }
  const std::string& user() const noexcept { return user_; }

 private:
  void set_held(std::size_t blocks) noexcept;

  BlockPool& pool_;
  std::string user_;
  // Changed under the pool's lock.
  std::atomic<std::size_t> minimum_;
  std::atomic<std::size_t> maximum_;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> lost_{0};
};

}}  // namespace vortex::v0
