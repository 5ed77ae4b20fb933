// Free blocks shared by streams that pass memory to each other, and what these streams have in
// common.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/detail/export.h"
#include "vortex/stream.h"

namespace vortex::inline v0 {

class PooledBlocks;

// The queue of free blocks that bucket streams and vanishing arrays share (section 5.4 of the
// Vortex paper): what one of them gives back on a read fault, another gets on its next write fault.
// A part of a BlockPool, of fixed size: an in-place sort makes it as large as its input plus what
// its buckets leave partly filled.
//
// take() and give_back() may be called inside a fault and from any thread.
class StreamPool {
 public:
  // Sets `blocks` blocks of `pool` aside. Throws Error(ENOMEM) when it cannot, naming what would
  // do.
  StreamPool(BlockPool& pool, std::size_t blocks, std::string user = "stream pool")
      : quota_(pool, blocks, blocks, std::move(user)) {}

  BlockPool& blocks() const noexcept { return quota_.pool(); }
  std::size_t block_bytes() const noexcept { return quota_.pool().block_bytes(); }
  std::size_t block_count() const noexcept { return quota_.minimum(); }

  std::size_t blocks_in_use() const noexcept { return quota_.held(); }

  // A resting block with unspecified contents; error EAGAIN when all blocks are in use.
  BlockGrant take() noexcept { return quota_.try_take(); }
  // The block must be resting.
  void give_back(Block block) noexcept { quota_.give_back(block); }

 private:
  BlockQuota quota_;
};

// Counts the blocks of the streams that are told to (PooledStream::count_with()), whoever else uses
// their pool. add() and remove() may be called inside a fault; everything from any thread.
class BlockMeter {
 public:
  std::size_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  // The most at once since the beginning or the last restart().
  std::size_t peak() const noexcept { return peak_.load(std::memory_order_relaxed); }
  // Starts a new peak from what is held now.
  void restart() noexcept { peak_.store(held(), std::memory_order_relaxed); }

  void add(std::size_t blocks) noexcept {
    const std::size_t held = held_.fetch_add(blocks, std::memory_order_relaxed) + blocks;
    std::size_t peak = this->peak();
    while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
    }
  }
  void remove(std::size_t blocks) noexcept { held_.fetch_sub(blocks, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
};

// One buffer that the same thread writes and reads (section 5.3 of the Vortex paper). A block of it
// is
//   empty:    no memory; a write fault draws a block from the pool,
//   open:     accessible,
//   guarded:  holds data, but every access faults, so that the stream notices reads.
//
// Besides faults there are the calls below, for code that knows where its data begin and end and
// would rather not pay for finding out. They return errno values instead of failing the stream, may
// not be called inside a fault, and may be mixed with faults.
class VORTEX_EXPORT PooledStream : public Stream {
 public:
  std::byte* bytes() noexcept { return base(); }
  StreamPool& pool() const noexcept { return pool_; }
  std::size_t held_blocks() const noexcept;

  // From now on `meter` counts the blocks of this stream, those that it holds already included, and
  // no other does; null: none. The meter must outlive this or the stream.
  void count_with(BlockMeter* meter) noexcept;

  // Makes [offset, offset + bytes) accessible: draws a block for what is empty and takes guards
  // away. Returns 0; ENOSPC beyond the reservation, EAGAIN when the pool is used up, or the
  // kernel's errno. On failure the blocks before the one that failed are accessible.
  int open_range(std::uint64_t offset, std::uint64_t bytes) noexcept;

  // Gives every block that lies whole inside [begin, end) back to the pool, whatever is in it.
  // Returns 0 or the kernel's errno; on failure the block that failed and those after it are still
  // held.
  int give_back_range(std::uint64_t begin, std::uint64_t end) noexcept;

 protected:
  PooledStream(std::string name, StreamPool& pool, std::uint64_t reserve_bytes);
  ~PooledStream() override;

  // Tells what a fault is and calls one of the two below; fails the stream when it can be neither,
  // or when they return an error.
  bool handle_fault(Access access, std::uint64_t offset) noexcept final;
  Window window() const noexcept final;

  // Block `index` is empty or guarded and about to be written / guarded and about to be read, at
  // its first byte or elsewhere. Each makes it accessible and returns 0 or an errno value.
  virtual int serve_write(std::uint64_t index) noexcept = 0;
  virtual int serve_read(std::uint64_t index, bool at_front) noexcept = 0;

  std::size_t block_bytes() const noexcept final { return pool_.block_bytes(); }
  PooledBlocks& blocks() noexcept { return *blocks_; }

  // The words for `error` that fail() takes as its cause.
  static const char* cause_of(int error) noexcept;

  // For the destructor of the derived class: close() and give everything back.
  void close_and_give_back() noexcept;

 private:
  StreamPool& pool_;
  const std::unique_ptr<PooledBlocks> blocks_;
};

}  // namespace vortex::inline v0
