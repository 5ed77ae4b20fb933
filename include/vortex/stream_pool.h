// Free blocks shared by streams that pass memory to each other.
#pragma once

#include <cstddef>
#include <string>

#include "vortex/block.h"
#include "vortex/block_pool.h"
#include "vortex/block_quota.h"

namespace vortex::inline v0 {

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

}  // namespace vortex::inline v0
