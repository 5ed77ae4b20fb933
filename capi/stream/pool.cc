#include "capi/stream/pool.h"

#include <limits>

#include "vortex/detail/stream/saturating.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 { namespace capi {

std::shared_ptr<BlockPool> pool_or_own(const vtx_pool* pool, std::size_t blocks,
                                       std::size_t block_bytes) {
  if (pool != nullptr) return pool->blocks;
  if (block_bytes == 0) block_bytes = kDefaultBlockBytes;
  BlockPoolOptions options;
  // A window that is too large for memory is refused with the memory.
  constexpr std::size_t kNoWindow = std::numeric_limits<std::size_t>::max();
  if (blocks == kNoWindow) expect_block_count("a stream", "comeback_blocks", blocks);
  options.pool_bytes = detail::saturating_product(blocks, block_bytes);
  options.block_bytes = block_bytes;
  return std::make_shared<BlockPool>(options);
}

}}}  // namespace vortex::v0::capi

int vtx_pool_create(size_t pool_bytes, size_t block_bytes, vtx_pool** pool) {
  return vortex::capi::answer_with(pool, [&] {
    vortex::BlockPoolOptions options;
    options.pool_bytes = pool_bytes;
    options.block_bytes = block_bytes;
    return std::make_unique<vtx_pool>(options);
  });
}

size_t vtx_pool_block_bytes(const vtx_pool* pool) { return pool->blocks->block_bytes(); }

void vtx_pool_close(vtx_pool* pool) { delete pool; }
