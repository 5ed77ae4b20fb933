// Blocks of a pool where they rest, as plain memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "vortex/block_pool.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

// One thread at a time. The blocks go back to the pool with it.
class PlainBlocks {
 public:
  // Sets `most` blocks aside; throws Error(ENOMEM) where the pool has fewer. `user` is for
  // messages.
  PlainBlocks(BlockPool& pool, std::size_t most, std::string user)
      : quota_(pool, most, most, std::move(user)) {
    blocks_.reserve(most);
  }
  // A forked child has none of them.
  ~PlainBlocks() {
    if (quota_.pool().inherited()) return;
    for (const Block block : blocks_) quota_.give_back(block);
  }
  PlainBlocks(const PlainBlocks&) = delete;
  PlainBlocks& operator=(const PlainBlocks&) = delete;

  // Throws Error(ENOMEM) where the system has no memory for the block.
  std::span<std::byte> take() {
    const BlockGrant grant = quota_.try_take();
    if (grant.error != 0) throw Error(grant.error, "memory for " + quota_.user());
    blocks_.push_back(grant.block);
    return {quota_.pool().home(grant.block), quota_.pool().block_bytes()};
  }

 private:
  BlockQuota quota_;
  std::vector<Block> blocks_;
};

}}  // namespace vortex::v0
