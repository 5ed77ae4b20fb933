#include "capi/pool.h"

#include <cerrno>
#include <string>

#include "vortex/error.h"

namespace vortex::inline v0::capi {

std::shared_ptr<BlockPool> pool_or_own(const vtx_pool* pool, std::size_t blocks,
                                       std::size_t block_bytes) {
  if (pool != nullptr) return pool->blocks;
  if (block_bytes == 0) block_bytes = kDefaultBlockBytes;
  BlockPoolOptions options;
  if (__builtin_mul_overflow(blocks, block_bytes, &options.pool_bytes)) {
    throw Error(ENOMEM, "no address space holds " + std::to_string(blocks) + " blocks of " +
                            format_bytes(block_bytes));
  }
  options.block_bytes = block_bytes;
  return std::make_shared<BlockPool>(options);
}

}  // namespace vortex::inline v0::capi

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
