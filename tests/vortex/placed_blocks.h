// A pool whose blocks a test places.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <vector>

#include "vortex/block_pool.h"
#include "vortex/os/reservation.h"

namespace vortex::test {

inline constexpr std::size_t kSmall = kMinBlockBytes;

// A pool, a quota of all its blocks, and room for `places` of them. What was taken goes back at the
// end, from wherever it is.
struct PlacedBlocks {
  PlacedBlocks(const BlockPoolOptions& options, std::size_t places)
      : pool(options),
        quota(pool, pool.block_count(), pool.block_count(), "test"),
        space({.bytes = places * pool.block_bytes()}) {}
  ~PlacedBlocks() {
    for (const Block block : blocks) {
      EXPECT_EQ(pool.withdraw(block), 0);
      quota.give_back(block);
    }
  }
  PlacedBlocks(const PlacedBlocks&) = delete;
  PlacedBlocks& operator=(const PlacedBlocks&) = delete;

  Block take() {
    const BlockGrant grant = quota.try_take();
    EXPECT_EQ(grant.error, 0);
    blocks.push_back(grant.block);
    return grant.block;
  }
  void take_all() {
    while (blocks.size() < pool.block_count()) take();
  }
  std::byte* at(std::size_t place) const { return space.begin() + place * pool.block_bytes(); }

  BlockPool pool;
  BlockQuota quota;
  Reservation space;
  std::vector<Block> blocks;  // taken
};

inline std::size_t map_count() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

}  // namespace vortex::test
