// What the streams that live on a StreamPool have in common.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "vortex/block.h"
#include "vortex/block_meter.h"
#include "vortex/stream.h"
#include "vortex/stream_pool.h"

namespace vortex::inline v0 {

// One buffer that the same thread writes and reads (section 5.3 of the Vortex paper). A block of it
// is
//   empty:    no memory; a write fault draws a block from the pool,
//   open:     accessible,
//   guarded:  holds data, but every access faults, so that the stream notices reads.
// A guard is the whole block with its access forbidden: the block stays where it is and a huge page
// stays whole, which a guard page inside it would split for good. (The alternatives are in
// docs/decisions.md, "A guard is a whole block".)
//
// Besides faults there are the calls below, for code that knows where its data begin and end and
// would rather not pay for finding out. They return errno values instead of failing the stream, may
// not be called inside a fault, and may be mixed with faults.
class PooledStream : public Stream {
 public:
  std::byte* bytes() noexcept { return base(); }
  std::uint64_t reserved_bytes() const noexcept { return reservation().bytes(); }
  StreamPool& pool() const noexcept { return pool_; }
  std::size_t held_blocks() const noexcept { return held_.load(std::memory_order_relaxed); }

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

  enum class State : std::uint8_t { kEmpty, kOpen, kGuarded };

  // Tells what a fault is and calls one of the two below; fails the stream when it can be neither,
  // or when they return an error.
  bool handle_fault(Access access, std::uint64_t offset) noexcept final;
  Window window() const noexcept final { return {0, extent()}; }

  // Block `index` is empty or guarded and about to be written / guarded and about to be read, at
  // its first byte or elsewhere. Each makes it accessible and returns 0 or an errno value.
  virtual int serve_write(std::uint64_t index) noexcept = 0;
  virtual int serve_read(std::uint64_t index, bool at_front) noexcept = 0;

  std::size_t block_bytes() const noexcept final { return block_bytes_; }
  std::uint64_t block_limit() const noexcept { return reserved_bytes() / block_bytes_; }
  State state(std::uint64_t index) const noexcept { return slots_[index].state; }
  // When the guard of a block was set, on the stream's own clock of events.
  std::uint64_t guarded_at(std::uint64_t index) const noexcept { return slots_[index].guarded_at; }
  // One more than the highest block ever held.
  std::uint64_t extent() const noexcept { return extent_; }
  std::uint64_t tick() noexcept { return ++clock_; }

  // Each changes the state of one block and returns 0 or an errno value, with nothing changed.
  int place_empty(std::uint64_t index) noexcept;                 // empty -> open
  int guard(std::uint64_t index, std::uint64_t since) noexcept;  // open -> guarded
  int unguard(std::uint64_t index) noexcept;                     // guarded -> open
  int give_back(std::uint64_t index) noexcept;                   // open or guarded -> empty

  // What went wrong, in words, for fail().
  static const char* cause_of(int error) noexcept;

  // For the destructor of the derived class: close() and give everything back.
  void close_and_give_back() noexcept;

 private:
  struct Slot {
    std::uint32_t block_plus_one;  // 0: none; the table starts as zeros
    State state;
    std::uint64_t guarded_at;
  };

  StreamPool& pool_;
  const std::size_t block_bytes_;
  Slot* slots_ = nullptr;  // lazily populated by the kernel
  std::size_t slots_bytes_ = 0;
  std::uint64_t extent_ = 0;
  std::uint64_t clock_ = 0;
  std::atomic<std::size_t> held_{0};
  BlockMeter* meter_ = nullptr;
};

}  // namespace vortex::inline v0
