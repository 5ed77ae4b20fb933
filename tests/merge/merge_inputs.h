// Sorted runs of many shapes for tests of merging.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "io/sequence/block_allocation.h"
#include "sort/merge/order_of_need.h"
#include "sort/merge/participation_order.h"
#include "study/merge_trace.h"
#include "study/smallest_key_order.h"

namespace vortex::test {

using Key = std::uint32_t;
using Runs = std::vector<std::vector<Key>>;

enum class Shape { kUniform, kAllEqual, kFewDistinct, kDisjoint, kUnequalRuns, kBursts };
inline constexpr Shape kAllShapes[] = {Shape::kUniform,  Shape::kAllEqual,    Shape::kFewDistinct,
                                       Shape::kDisjoint, Shape::kUnequalRuns, Shape::kBursts};

// `count` runs of up to `blocks` blocks of `records_per_block` keys; most end within a block.
inline Runs make_runs(Shape shape, unsigned count, unsigned blocks, unsigned records_per_block,
                      std::mt19937_64& random) {
  Runs runs(count);
  for (unsigned run = 0; run < count; ++run) {
    std::uint64_t size = random() % (std::uint64_t{blocks} * records_per_block) + 1;
    if (shape == Shape::kUnequalRuns && run % 4 != 0) size = size / 20 + 1;
    for (std::uint64_t i = 0; i < size; ++i) {
      const Key key = static_cast<Key>(random());
      switch (shape) {
        case Shape::kUniform:
        case Shape::kUnequalRuns:
          runs[run].push_back(key);
          break;
        case Shape::kAllEqual:
          runs[run].push_back(7);
          break;
        case Shape::kFewDistinct:
          runs[run].push_back(key % 3);
          break;
        case Shape::kDisjoint:  // the runs are merged one after the other, the last one first
          runs[run].push_back((count - run) * 1000000 + key % 1000000);
          break;
        case Shape::kBursts:  // all blocks of a row end together (SPAA, section 2.3)
          runs[run].push_back(static_cast<Key>(2 * (i / records_per_block) +
                                               (i % records_per_block == records_per_block - 1)));
          break;
      }
    }
    std::sort(runs[run].begin(), runs[run].end());
  }
  return runs;
}

// The key that each block ends (or begins) with.
inline Runs last_keys(const Runs& runs, unsigned records_per_block) {
  Runs keys(runs.size());
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::vector<Key>& all = runs[run];
    for (std::size_t begin = 0; begin < all.size(); begin += records_per_block) {
      keys[run].push_back(all[std::min<std::size_t>(begin + records_per_block, all.size()) - 1]);
    }
  }
  return keys;
}

inline Runs first_keys(const Runs& runs, unsigned records_per_block) {
  Runs keys(runs.size());
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (std::size_t begin = 0; begin < runs[run].size(); begin += records_per_block) {
      keys[run].push_back(runs[run][begin]);
    }
  }
  return keys;
}

inline std::vector<std::span<const Key>> spans(const Runs& runs) {
  return {runs.begin(), runs.end()};
}

inline std::vector<BlockAllocation> allocations(AllocationStrategy strategy, unsigned disks,
                                                std::size_t runs, std::uint64_t seed) {
  std::vector<BlockAllocation> result;
  for (std::size_t run = 0; run < runs; ++run) {
    result.emplace_back(strategy, std::vector<double>(disks, 1.0), seed, run);
  }
  return result;
}

inline AllocationStrategy random_strategy(std::mt19937_64& random) {
  return static_cast<AllocationStrategy>(random() % 4);
}

// The merge of `runs` through plain pointers, its blocks on disks.
inline MergeTrace plain_trace(const Runs& runs, unsigned records_per_block,
                              const std::vector<BlockAllocation>& allocation) {
  MergeTrace trace = plain_merge_trace(merged_block_ends(runs, records_per_block));
  assign_disks(trace.order, allocation);
  return trace;
}

inline std::unique_ptr<OrderOfNeed> known_order(const MergeTrace& trace) {
  return std::make_unique<KnownOrder>(trace.order);
}

}  // namespace vortex::test
