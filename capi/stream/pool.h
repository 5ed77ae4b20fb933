// Pools and disks of the C interface, which streams share.
#pragma once

#include <cstddef>
#include <memory>

#include "capi/stream/handle.h"
#include "vortex/block_pool.h"
#include "vortex/c.h"
#include "vortex/disk.h"

namespace vortex { inline namespace v0 { namespace capi {

std::unique_ptr<Disk> open_disk_of(const vtx_disk_options* options);

}}}  // namespace vortex::v0::capi

// Streams hold what is behind the handles as well, so that these may be closed before them.
struct vtx_pool : vortex::capi::Handle {
  explicit vtx_pool(const vortex::BlockPoolOptions& options)
      : blocks(std::make_shared<vortex::BlockPool>(options)) {}

  void give_to(vortex::BlockPool*& option) const noexcept { option = blocks.get(); }
  void give_to(std::shared_ptr<vortex::BlockPool>& option) const noexcept { option = blocks; }

  const std::shared_ptr<vortex::BlockPool> blocks;
};

struct vtx_disk : vortex::capi::Handle {
  explicit vtx_disk(const vtx_disk_options* options) : queue(vortex::capi::open_disk_of(options)) {}

  void give_to(vortex::Disk*& option) const noexcept { option = queue.get(); }

  const std::shared_ptr<vortex::Disk> queue;
};

namespace vortex { inline namespace v0 { namespace capi {

// The blocks of `pool`; for null a pool of `blocks` of `block_bytes` each, 0 being the default.
std::shared_ptr<BlockPool> pool_or_own(const vtx_pool* pool, std::size_t blocks,
                                       std::size_t block_bytes);

// What must be there as long as a stream that has been given it.
struct Held {
  Held() = default;
  template <typename Options>
  explicit Held(const Options* given) {
    if (given == nullptr) return;
    if (given->pool != nullptr) pool = given->pool->blocks;
    if (given->disk != nullptr) disk = given->disk->queue;
  }

  std::shared_ptr<BlockPool> pool;
  std::shared_ptr<Disk> disk;
};

}}}  // namespace vortex::v0::capi
