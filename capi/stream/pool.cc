#include "capi/stream/pool.h"

#include <limits>

#include "capi/stream/stream_fields.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/memory_budget.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 { namespace capi {

std::unique_ptr<Disk> open_disk_of(const vtx_disk_options* options) {
  return open_disk(options_of<DiskOptions>(options));
}

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

using namespace vortex::capi;

int vtx_pool_create(const vtx_pool_options* options, vtx_pool** pool) {
  return answer_with(pool, [&] {
    return std::make_unique<vtx_pool>(options_of<vortex::BlockPoolOptions>(options));
  });
}

size_t vtx_pool_block_bytes(const vtx_pool* pool) { return pool->blocks->block_bytes(); }

int vtx_pool_statistics(const vtx_pool* pool, vtx_pool_counts* counts) {
  return answer(*pool, [&] {
    expect_place(counts);
    tell_fields(pool->blocks->statistics(), *counts);
  });
}

int vtx_pool_wait_until_warm(vtx_pool* pool) {
  return answer(*pool, [&] { pool->blocks->wait_until_warm(); });
}

int vtx_pool_retire(vtx_pool* pool, size_t blocks, size_t* retired) {
  return answer(*pool, [&] {
    expect_place(retired);
    *retired = pool->blocks->retire(blocks);
  });
}

void vtx_pool_close(vtx_pool* pool) { delete pool; }

int vtx_process_memory(vtx_memory_counts* counts) {
  return answer(thread_error(), [&] {
    expect_place(counts);
    tell_fields(vortex::process_memory(), *counts);
  });
}

int vtx_disk_open(const vtx_disk_options* options, vtx_disk** disk) {
  return answer_with(disk, [&] { return std::make_unique<vtx_disk>(options); });
}

void vtx_disk_close(vtx_disk* disk) { delete disk; }

int vtx_measure_disk_speed(vtx_disk* disk, const char* folder,
                           const vtx_disk_speed_options* options, vtx_disk_speed* speed) {
  return answer(*disk, [&] {
    expect_place(speed);
    tell_fields(vortex::measure_disk_speed(*disk->queue, required(folder, "the folder"),
                                           options_of<vortex::DiskSpeedOptions>(options)),
                *speed);
  });
}

int vtx_measure_request_cost(vtx_disk* disk, const char* folder,
                             const vtx_disk_speed_options* options, double* bytes) {
  return answer(*disk, [&] {
    expect_place(bytes);
    *bytes = vortex::measure_request_cost(*disk->queue, required(folder, "the folder"),
                                          options_of<vortex::DiskSpeedOptions>(options));
  });
}
