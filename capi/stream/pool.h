// The pool of the C interface.
#pragma once

#include <cstddef>
#include <memory>

#include "capi/stream/handle.h"
#include "vortex/block_pool.h"
#include "vortex/c.h"

struct vtx_pool : vortex::capi::Handle {
  explicit vtx_pool(const vortex::BlockPoolOptions& options)
      : blocks(std::make_shared<vortex::BlockPool>(options)) {}

  // Streams hold it as well, so that the handle may be closed before them.
  const std::shared_ptr<vortex::BlockPool> blocks;
};

namespace vortex { inline namespace v0 { namespace capi {

// The blocks of `pool`; for null a pool of so many of `block_bytes` each, 0 being the default.
std::shared_ptr<BlockPool> pool_or_own(const vtx_pool* pool, std::size_t blocks,
                                       std::size_t block_bytes);

// The blocks of `pool`, or null.
inline std::shared_ptr<BlockPool> blocks_of(const vtx_pool* pool) noexcept {
  return pool == nullptr ? nullptr : pool->blocks;
}

}}}  // namespace vortex::v0::capi
