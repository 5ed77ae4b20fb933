// Where an output stream gets empty blocks and hands full ones.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "vortex/block.h"
#include "vortex/block_pool.h"
#include "vortex/failure.h"
#include "vortex/stream/in_place_handover.h"

namespace vortex::inline v0 {

// Takes the blocks of an output stream: a callback, a channel to another thread, a disk queue.
// take(), complete(), skip() and discard() are called inside faults (or inside finish()), by one
// thread at a time, with the stream locked: no allocation, no exceptions, no touch of the stream
// itself. They may wait.
class Sink {
 public:
  virtual ~Sink() = default;

  struct Taken {
    Block block;  // resting, contents unspecified; none on error
    Status status = {};
  };

  // The pool all blocks come from and return to.
  virtual BlockPool& pool() noexcept = 0;

  // How many blocks the sink guarantees the stream to hold at once: at least L + 1.
  virtual std::size_t blocks_for_stream() const noexcept = 0;

  // An empty block for `index`.
  virtual Taken take(std::uint64_t index) noexcept = 0;

  // Block `index` is final and belongs to the sink from here on, even on error. Resting. Indexes
  // arrive in increasing order; every index below the end arrives here or in skip(). `bytes` is
  // less than a block only in the last one.
  virtual Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept = 0;

  // The writer went past the blocks [first, first + count) without touching them. By default an
  // error: what they would hold is anybody's guess.
  virtual Status skip(std::uint64_t first, std::uint64_t count) noexcept {
    (void)first;
    (void)count;
    return {EINVAL, "the writer jumped over blocks that it can never write again"};
  }

  // A block of take() that will not be completed. Resting.
  virtual void discard(Block block) noexcept = 0;

  // All blocks have been handed over and the data end at `length` bytes. Called outside faults, may
  // allocate and wait.
  virtual Status finish(std::uint64_t length) noexcept {
    (void)length;
    return {};
  }

  // The stream ends without finish(): what was handed over is not a whole.
  virtual void abandon() noexcept {}

  // Not null when whole blocks are completed where they are and take() may return placed ones.
  virtual InPlaceHandover* in_place() noexcept { return nullptr; }

  // Wakes a call that waits, which then returns ECANCELED; from any thread.
  virtual void cancel() noexcept {}
};

}  // namespace vortex::inline v0
