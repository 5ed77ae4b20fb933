// Sorted runs of many shapes for tests of merging.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "io/sequence/block_allocation.h"
#include "sort/merge/order_of_need.h"
#include "study/merge_trace.h"

namespace vortex::test {

using Key = std::uint32_t;
using Runs = std::vector<std::vector<Key>>;

enum class RunShape { kUniform, kAllEqual, kFewDistinct, kDisjoint, kUnequalRuns, kBursts };
inline constexpr RunShape kAllShapes[] = {RunShape::kUniform,     RunShape::kAllEqual,
                                          RunShape::kFewDistinct, RunShape::kDisjoint,
                                          RunShape::kUnequalRuns, RunShape::kBursts};

// `count` runs of up to `blocks` blocks of `records_per_block` keys; most end within a block.
inline Runs make_runs(RunShape shape, unsigned count, unsigned blocks, unsigned records_per_block,
                      std::mt19937_64& random) {
  Runs runs(count);
  for (unsigned run = 0; run < count; ++run) {
    std::uint64_t size = random() % (std::uint64_t{blocks} * records_per_block) + 1;
    if (shape == RunShape::kUnequalRuns && run % 4 != 0) size = size / 20 + 1;
    for (std::uint64_t i = 0; i < size; ++i) {
      const Key key = static_cast<Key>(random());
      switch (shape) {
        case RunShape::kUniform:
        case RunShape::kUnequalRuns:
          runs[run].push_back(key);
          break;
        case RunShape::kAllEqual:
          runs[run].push_back(7);
          break;
        case RunShape::kFewDistinct:
          runs[run].push_back(key % 3);
          break;
        case RunShape::kDisjoint:  // the runs are merged one after the other, the last one first
          runs[run].push_back((count - run) * 1000000 + key % 1000000);
          break;
        case RunShape::kBursts:  // all blocks of a row end together (SPAA, section 2.3)
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

// The order in which keys of blocks foretell them: each the block `ahead` blocks behind its own,
// where the first ones are needed at once. With 1 and last keys that is the participation order,
// with 0 and first keys the prediction sequence of SPAA, section 2.2, which belongs to BlockMerger:
// a merge through plain run pointers asks for the next block of the run whose block is used up, and
// where many keys are equal that is another block than the one with the smallest key.
inline std::unique_ptr<OrderOfNeed> foretold_by(const Runs& keys,
                                                const std::vector<BlockAllocation>& allocation,
                                                std::uint64_t ahead) {
  const auto block_of = [&](std::uint32_t run, std::uint64_t index) {
    return NeededBlock{run, allocation[run].disk(index), index};
  };
  const auto count = static_cast<std::uint32_t>(keys.size());
  std::vector<NeededBlock> first;
  for (std::uint32_t run = 0; run < count; ++run) {
    if (ahead != 0 && !keys[run].empty()) first.push_back(block_of(run, 0));
  }
  std::vector<std::uint64_t> next(count), at(count);
  const auto advance = [&](std::uint32_t run) -> std::optional<NeededBlock> {
    at[run] = next[run]++;
    if (at[run] + ahead >= keys[run].size()) return std::nullopt;
    return block_of(run, at[run] + ahead);
  };
  return foretold_order(std::move(first), count, advance, [&](std::uint32_t a, std::uint32_t b) {
    return keys[a][at[a]] < keys[b][at[b]];
  });
}

// All of an order.
inline std::vector<NeededBlock> whole_order(OrderOfNeed& order) {
  std::vector<NeededBlock> blocks;
  for (NeededBlock block; order.next(block);) blocks.push_back(block);
  return blocks;
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
