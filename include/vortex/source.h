// Where an input stream gets its next full block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "vortex/block.h"
#include "vortex/block_pool.h"
#include "vortex/failure.h"
#include "vortex/stream/in_place_handover.h"

namespace vortex::inline v0 {

// Supplies an input stream with blocks: a callback (Vortex-A), a channel from another thread
// (Vortex-C), a disk queue, one run of a merge. take(), release() and fill() are called inside
// faults, by one thread at a time, with the stream locked: no allocation, no exceptions, no touch
// of the stream itself. They may wait.
class Source {
 public:
  virtual ~Source() = default;

  struct Taken {
    Block block;            // none at the end of the data, and on error
    std::size_t bytes = 0;  // valid bytes in it; less than a block only in the last one
    Status status = {};
  };

  // The pool all blocks come from and return to.
  virtual BlockPool& pool() noexcept = 0;

  // How many blocks the source guarantees the stream to hold at once: at least M + 1.
  virtual std::size_t blocks_for_stream() const noexcept = 0;

  // The block `index` (bytes from index * B on), for the stream to place. `index` is at least
  // `floor`, not held by the stream at present, and usually one more than the last; blocks below
  // `floor` will never be asked for again. So forward jumps skip blocks, and a comeback within M
  // may ask for one that was skipped. No block and no error: the data end at or before index * B,
  // and length() tells where.
  virtual Taken take(std::uint64_t index, std::uint64_t floor) noexcept = 0;

  // A block of take() comes back, resting, its contents no longer needed.
  virtual void release(std::uint64_t index, Block block) noexcept = 0;

  // Exact length in bytes, once it is known.
  virtual std::optional<std::uint64_t> length() const noexcept = 0;

  // Writes what readers find after the end of the data: [begin, end) is the memory for the bytes
  // from `offset` of the stream on. Zeros by default, at which NUL-terminated scanners stop.
  virtual void fill(std::byte* begin, std::byte* end, std::uint64_t offset) noexcept {
    (void)offset;
    std::memset(begin, 0, static_cast<std::size_t>(end - begin));
  }

  // Not null when blocks are released where they are and take() may return placed ones.
  virtual InPlaceHandover* in_place() noexcept { return nullptr; }

  // Wakes a take() that waits, which then returns ECANCELED; from any thread.
  virtual void cancel() noexcept {}
};

}  // namespace vortex::inline v0
