// Tests of streams that share their free blocks: a pool of small blocks.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "vortex/block_pool.h"
#include "vortex/vanishing_array.h"

namespace vortex::test {

inline constexpr std::size_t kBlock = std::size_t{16} << 10;
inline constexpr std::size_t kWords = kBlock / sizeof(std::uint64_t);

class PooledTest : public ::testing::Test {
 protected:
  void make_pool(std::size_t blocks) {
    BlockPoolOptions options;
    options.pool_bytes = blocks * kBlock;
    options.block_bytes = kBlock;
    options.warming = Warming::kOnDemand;
    blocks_ = std::make_unique<BlockPool>(options);
    pool_ = std::make_unique<StreamPool>(*blocks_, blocks);
  }

  std::unique_ptr<BlockPool> blocks_;
  std::unique_ptr<StreamPool> pool_;
};

}  // namespace vortex::test
