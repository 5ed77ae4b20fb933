// Arrays and buckets that get a block from a shared pool where they are written and give it back
// where it has been read (Vortex-S).
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class PooledBlocks;
namespace detail {
class BlockRanges;
}

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

  // Blocks that are free at this moment are the pool's again, and nobody may take one any more.
  void keep_only_used() noexcept { quota_.lower_to(0); }

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

// One buffer that is written and read through its pointer (section 5.3 of the Vortex paper). A
// block of it is
//   empty:      no memory; a write fault draws a block from the pool,
//   set aside:  a block of the pool is kept for its write fault,
//   open:       accessible,
//   guarded:    holds data, but every access faults, so that the stream notices reads.
class VORTEX_EXPORT PooledStream : public Stream {
 public:
  std::byte* bytes() noexcept { return base(); }
  StreamPool& pool() const noexcept { return pool_; }
  std::size_t held_blocks() const noexcept;

  // From now on `meter` counts the blocks of this stream, those that it holds already included, and
  // no other does; null: none. The meter must outlive this or the stream. A sort of the array
  // counts with a meter of its own, and leaves none.
  void count_with(BlockMeter* meter) noexcept;

 protected:
  PooledStream(std::string name, StreamPool& pool, std::uint64_t reserve_bytes);
  ~PooledStream() override;

  // Tells what a fault is and calls one of the two below; fails the stream when it can be neither,
  // or when they return an error.
  bool handle_fault(Access access, std::uint64_t offset) noexcept final;
  Window window() const noexcept final;

  // Block `index` is not open and about to be written / guarded and about to be read, at its first
  // byte or elsewhere. Each makes it accessible and returns 0 or an errno value.
  virtual int serve_write(std::uint64_t index) noexcept = 0;
  virtual int serve_read(std::uint64_t index, bool at_front) noexcept = 0;

  std::size_t block_bytes() const noexcept final { return pool_.block_bytes(); }
  PooledBlocks& blocks() noexcept { return *blocks_; }

  // See BucketStream.
  int set_aside(std::uint64_t offset, std::uint64_t bytes) noexcept;

  // The words for `error` that fail() takes as its cause.
  static const char* cause_of(int error) noexcept;

  // For the destructor of the derived class: close() and give everything back.
  void close_and_give_back() noexcept;

 private:
  friend class detail::BlockRanges;

  template <typename Use>
  int for_blocks_of(std::uint64_t offset, std::uint64_t bytes, const Use& use) noexcept;

  StreamPool& pool_;
  const std::unique_ptr<PooledBlocks> blocks_;
};

struct VanishingArrayOptions {
  std::string name = "array";
  // M: how many blocks a reader may come back. Records and vector loads that straddle a block
  // border need 1. With all blocks of the array, reading gives nothing back.
  std::size_t comeback_blocks = 0;
};

// The untyped part: the simple case of Vortex-S (section 6.5 of the Vortex paper). Writing draws
// blocks from the pool. Reading in ascending order gives a block back when the reader touches a
// block more than M beyond it. Afterwards the array can be written again, and even while it is
// being read: in the blocks that the reader has given back, so more than M blocks behind it. (A
// store into a block that the reader still has is lost with the block: nothing faults, so nobody
// can know.) What the reader touched last stays until finish_reading(). One thread at a time.
class VORTEX_EXPORT VanishingArrayBase : public PooledStream {
 public:
  using Options = VanishingArrayOptions;

  // Throws Error from the reservation: EINVAL beyond the address space, ENOMEM when it is refused.
  VanishingArrayBase(StreamPool& pool, std::uint64_t capacity_bytes, Options options);
  ~VanishingArrayBase() override;

  std::size_t comeback_blocks() const noexcept { return comeback_blocks_; }

  // Declares the written data complete: the last block is guarded, too, so that the array notices a
  // reader in it. Without this call reading works, and the last block written stays until
  // finish_reading(). Throws Error. Not inside a fault.
  void finish_writing();

  // The reader is done: gives back what it touched last. Throws Error. Not inside a fault.
  void finish_reading();

  // Gives everything back. Throws Error. Not inside a fault.
  void clear();

 protected:
  int serve_write(std::uint64_t index) noexcept final;
  int serve_read(std::uint64_t index, bool at_front) noexcept final;

  // Throws Error when `error` is not 0.
  void require(int error, const char* what) const;

  // Opens the first `bytes`, at most `part_bytes` at a time, and calls `read` for each part. Throws
  // Error, and what `read` throws; then the array is empty.
  void load_parts(std::uint64_t bytes, std::uint64_t part_bytes,
                  const std::function<void(std::uint64_t offset, std::uint64_t bytes)>& read);

 private:
  static constexpr std::uint64_t kNone = static_cast<std::uint64_t>(-1);

  const std::size_t comeback_blocks_;
  std::uint64_t write_begin_ = kNone;  // blocks [write_begin_, writing_] were opened by the writer
  std::uint64_t writing_ = kNone;
  std::uint64_t read_begin_ = kNone;  // blocks [read_begin_, reading_] were opened by the reader
  std::uint64_t reading_ = kNone;
};

// VanishingArray<T>: `T*` for plain loops.
//
//   vortex::VanishingArray<int> a(pool, n);
//   for (std::size_t i = 0; i < n; ++i) a.data()[i] = f(i);    // memory comes from the pool
//   for (std::size_t i = 0; i < n; ++i) use(a.data()[i]);      // and returns to it
template <typename T>
class VanishingArray : public VanishingArrayBase {
  static_assert(std::is_trivially_copyable_v<T>,
                "a vanishing array moves bytes: its element type must be trivially copyable");

 public:
  // Room for `capacity` elements: address space only. Throws as VanishingArrayBase does.
  VanishingArray(StreamPool& pool, std::uint64_t capacity, Options options = {})
      : VanishingArrayBase(
            pool, detail::saturating_product(std::max<std::uint64_t>(capacity, 1), sizeof(T)),
            std::move(options)),
        capacity_(capacity) {}

  T* data() noexcept { return reinterpret_cast<T*>(bytes()); }
  // The contents as a range. It may be gone through once where the data vanish (after seal(), or
  // plain stores), so the array itself is none; after load() and sorts, in any order.
  std::span<T> span() noexcept { return {data(), size()}; }
  std::uint64_t capacity() const noexcept { return capacity_; }

  // Elements that load() has put there or resize() has declared. Plain stores do not change it.
  std::uint64_t size() const noexcept { return size_; }

  // Declares that the first `count` elements are the contents. Blocks behind them stay as
  // they are. Throws Error(EINVAL) beyond capacity().
  void resize(std::uint64_t count) {
    if (count > capacity_) require(EINVAL, "more elements than its capacity");
    size_ = count;
  }

  // Replaces the contents by a copy of `values`. Throws Error: EINVAL beyond the capacity, EAGAIN
  // when the pool is used up; then the array is empty.
  void load(std::span<const T> values) {
    load_with(values.size(), [&values](std::span<T> part, std::uint64_t first) {
      std::memcpy(part.data(), values.data() + first, part.size_bytes());
    });
  }

  // Replaces the contents by `count` elements that `read(std::span<T> part, std::uint64_t first)`
  // puts in place, part by part in ascending order: the parts are the array's own memory,
  // accessible to system calls, so that a file is read without a copy. Parts are `part_bytes` long
  // and begin where blocks begin. Throws what `read` throws; then the array is empty.
  template <typename Read>
  void load_with(std::uint64_t count, Read&& read, std::size_t part_bytes = std::size_t{8} << 20) {
    clear();
    size_ = 0;
    if (count > capacity_) require(EINVAL, "more elements than its capacity");
    const std::uint64_t whole =
        std::max<std::uint64_t>(part_bytes / block_bytes() * block_bytes(), block_bytes());
    const std::uint64_t step = std::max<std::uint64_t>(whole / sizeof(T), 1);
    load_parts(count * sizeof(T), step * sizeof(T), [&](std::uint64_t offset, std::uint64_t here) {
      const std::uint64_t first = offset / sizeof(T);
      read(std::span<T>(data() + first, here / sizeof(T)), first);
    });
    size_ = count;
  }

  // Forbids access to the contents until they are read, so that a plain loop over data() gives them
  // back block by block. load() leaves them open, for code that comes in any order.
  void seal() { finish_writing(); }

 private:
  std::uint64_t capacity_;
  std::uint64_t size_ = 0;
};

struct BucketStreamOptions {
  std::string name = "bucket";
  std::uint64_t reserve_bytes = std::uint64_t{1} << 36;  // the most it spans, all levels together
  std::size_t comeback_blocks = 0;                       // M, as in VanishingArrayOptions
  bool guarded_by_seal = false;  // the writer guards nothing: data are written whole, then read
};

// Vortex-S (section 5.3 of the Vortex paper): one buffer, written and read by the same thread, in
// which a depth-first partitioning stacks the data of all its levels. Plain stores and loads
// through bytes() are all it needs.
//
// A write fault draws a block from the pool; the block M + 1 before it, which the writer has
// left, is guarded. A read fault takes the guard away, and a block that has been read is given back
// under the two unmapping rules: a read fault at block y frees the block M + 1 before it only if
//   a) the last read fault was at block y - 1, so that all of it has been read, and
//   b) the guard of y was set before that read fault, so that nothing was appended to y - 1 since.
// The rules speak of the first byte of a block. A reader that starts in the middle of one has data
// of another level before it: such a block is opened without counting as read, and is guarded again
// when the reader goes on elsewhere. When a reader starts below where the last one started, what
// lies above is a tail left open by readers and writers of higher levels, and is guarded again,
// too.
//
// These rules cannot see that the last block of some data has been read: nothing is touched behind
// it. That block stays until truncate(), or until it is read again as part of other data. Reading
// bytes that were never written is the stream's error.
//
// Where one set of data is written before any of it is read, seal() sets all guards in few system
// calls, and several threads may write it (guarded_by_seal), each other's blocks included.
//
// The calls return 0 or an errno value, do not fail the stream, and are not made inside a fault.
class VORTEX_EXPORT BucketStream final : public PooledStream {
 public:
  using Options = BucketStreamOptions;

  // Throws Error from the reservation: EINVAL beyond the address space, ENOMEM when it is refused.
  explicit BucketStream(StreamPool& pool, Options options = {});
  ~BucketStream() override;

  // Sets a block of the pool aside for each that a store to [offset, offset + bytes) may miss, so
  // that none of their faults finds the pool empty. ENOSPC beyond the reservation, EAGAIN when the
  // pool is used up; the blocks before the one that failed are set aside then.
  using PooledStream::set_aside;

  // Forbids access to all data until they are read, so that the next reader gives them back block
  // by block. It reads the first byte of a block before the others, as a loop does and memcpy() may
  // not. After the kernel's errno some blocks may not be noticed; they stay until clear().
  int seal() noexcept;

  // What lies at `bytes` and behind has been read for the last time, and the next data may be
  // written there. Gives the blocks behind the one that `bytes` lies in back to the pool; where
  // there are none this takes no lock and no system call. After the kernel's errno the block that
  // it refused to move and those behind it are still held.
  int truncate(std::uint64_t bytes) noexcept;

  // Gives everything back, what was set aside included. Fails as truncate() does.
  int clear() noexcept;

 protected:
  int serve_write(std::uint64_t index) noexcept override;
  int serve_read(std::uint64_t index, bool at_front) noexcept override;

 private:
  static constexpr std::uint64_t kNone = static_cast<std::uint64_t>(-1);

  void forget_reader() noexcept;
  int leave_entered(std::uint64_t index) noexcept;
  int guard_above(std::uint64_t index) noexcept;

  const std::size_t comeback_blocks_;
  const bool guarded_by_seal_;
  std::uint64_t last_front_ = kNone;  // block of the last read fault, if it was at the front
  std::uint64_t last_front_at_ = 0;   // and when
  std::uint64_t run_begin_ = 0;       // first block of the consecutive front faults up to it
  std::uint64_t reading_from_ = 0;    // block in which the present reader was first seen
  std::uint64_t entered_ = kNone;     // block opened by a read fault in its middle
};

}}  // namespace vortex::v0
