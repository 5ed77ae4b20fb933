#include "io/sequence/block_allocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "vortex/error.h"

namespace vortex { namespace {

constexpr AllocationStrategy kAll[] = {
    AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
    AllocationStrategy::kRandomCyclic, AllocationStrategy::kFullyRandom};

std::vector<unsigned> disks_of(const BlockAllocation& allocation, unsigned blocks) {
  std::vector<unsigned> disks;
  for (unsigned block = 0; block < blocks; ++block) disks.push_back(allocation.disk(block));
  return disks;
}

TEST(BlockAllocation, StripingIsTheRoundRobin) {
  const BlockAllocation allocation(AllocationStrategy::kStriping, {1, 1, 1}, 7, 5);
  EXPECT_EQ(disks_of(allocation, 7), (std::vector<unsigned>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(BlockAllocation, RoundRobinsPutConsecutiveBlocksOnDifferentDisks) {
  for (const AllocationStrategy strategy :
       {AllocationStrategy::kStriping, AllocationStrategy::kSimpleRandomized,
        AllocationStrategy::kRandomCyclic}) {
    for (unsigned disks = 1; disks <= 9; ++disks) {
      for (unsigned sequence = 0; sequence < 20; ++sequence) {
        const BlockAllocation allocation(strategy, std::vector<double>(disks, 3.5), 1, sequence);
        for (unsigned first = 0; first < 3 * disks; ++first) {
          std::set<unsigned> seen;
          for (unsigned i = 0; i < disks; ++i) seen.insert(allocation.disk(first + i));
          EXPECT_EQ(seen.size(), disks) << allocation_strategy_name(strategy);
        }
      }
    }
  }
}

TEST(BlockAllocation, SimpleRandomizedKeepsTheOrderOfTheDisks) {
  for (unsigned sequence = 0; sequence < 50; ++sequence) {
    const BlockAllocation allocation(AllocationStrategy::kSimpleRandomized, {1, 1, 1, 1}, 3,
                                     sequence);
    for (unsigned block = 0; block < 10; ++block) {
      EXPECT_EQ(allocation.disk(block + 1), (allocation.disk(block) + 1) % 4);
    }
  }
}

// How often each outcome of a random choice comes up in `counts` must be within five standard
// deviations of the mean.
void expect_uniform(const std::vector<unsigned>& counts) {
  double total = 0;
  for (const unsigned count : counts) total += count;
  const double share = 1.0 / static_cast<double>(counts.size());
  const double deviation = std::sqrt(total * share * (1 - share));
  for (const unsigned count : counts) EXPECT_NEAR(count, total * share, 5 * deviation);
}

TEST(BlockAllocation, RandomChoicesAreUniformOverTheSequences) {
  constexpr unsigned kSequences = 24000;
  std::vector<unsigned> first_disks(4), permutations(24), blocks(4);
  for (unsigned sequence = 0; sequence < kSequences; ++sequence) {
    const std::vector<double> weights(4, 1.0);
    first_disks[BlockAllocation(AllocationStrategy::kSimpleRandomized, weights, 1, sequence)
                    .disk(0)]++;
    blocks[BlockAllocation(AllocationStrategy::kFullyRandom, weights, 1, sequence).disk(17)]++;
    auto cycle =
        disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 1, sequence), 4);
    unsigned rank = 0;
    while (std::prev_permutation(cycle.begin(), cycle.end())) ++rank;
    permutations[rank]++;
  }
  expect_uniform(first_disks);
  expect_uniform(permutations);
  expect_uniform(blocks);
}

TEST(BlockAllocation, FullyRandomIsUniformOverTheBlocksOfASequence) {
  const BlockAllocation allocation(AllocationStrategy::kFullyRandom, {1, 1, 1, 1, 1}, 9, 2);
  std::vector<unsigned> counts(5), pairs(25);
  for (unsigned block = 0; block < 50000; ++block) {
    counts[allocation.disk(block)]++;
    pairs[allocation.disk(block) * 5 + allocation.disk(block + 1)]++;
  }
  expect_uniform(counts);
  expect_uniform(pairs);
}

TEST(BlockAllocation, SharesFollowTheWeights) {
  const std::vector<double> weights = {200, 50, 0, 100, 200};
  for (const AllocationStrategy strategy : kAll) {
    const BlockAllocation allocation(strategy, weights, 4, 11);
    std::vector<double> counts(weights.size());
    constexpr unsigned kBlocks = 110000;
    for (unsigned block = 0; block < kBlocks; ++block) counts[allocation.disk(block)]++;
    for (std::size_t disk = 0; disk < weights.size(); ++disk) {
      EXPECT_NEAR(counts[disk], kBlocks * weights[disk] / 550, 0.01 * kBlocks)
          << allocation_strategy_name(strategy) << " disk " << disk;
    }
    EXPECT_EQ(counts[2], 0);
  }
}

TEST(BlockAllocation, TheSlowestDiskIsNotForgotten) {
  for (const double slow : {0.01, 1e-9}) {
    const BlockAllocation allocation(AllocationStrategy::kStriping, {1, slow, 0}, 1, 0);
    const std::vector<unsigned> disks =
        disks_of(allocation, static_cast<unsigned>(allocation.period()));
    EXPECT_EQ(std::count(disks.begin(), disks.end(), 1U), 1);
    EXPECT_EQ(std::count(disks.begin(), disks.end(), 2U), 0);
  }
}

TEST(BlockAllocation, UnequalSharesAreSpreadEvenly) {
  // A disk four times slower has one slot in thirteen, and every window of thirteen shows it.
  const BlockAllocation allocation(AllocationStrategy::kStriping, {4, 4, 4, 1}, 1, 1);
  EXPECT_EQ(allocation.period(), 13U);
  for (unsigned first = 0; first < 26; ++first) {
    unsigned slow = 0, consecutive = 0, longest = 0, before = 99;
    for (unsigned block = first; block < first + 13; ++block) {
      const unsigned disk = allocation.disk(block);
      slow += disk == 3;
      consecutive = disk == before ? consecutive + 1 : 1;
      longest = std::max(longest, consecutive);
      before = disk;
    }
    EXPECT_EQ(slow, 1U);
    EXPECT_EQ(longest, 1U);
  }
}

TEST(BlockAllocation, OneSeedOneAllocation) {
  for (const AllocationStrategy strategy : kAll) {
    const std::vector<double> weights = {1, 2, 3};
    EXPECT_EQ(disks_of(BlockAllocation(strategy, weights, 5, 6), 100),
              disks_of(BlockAllocation(strategy, weights, 5, 6), 100));
  }
  const std::vector<double> weights(8, 1.0);
  EXPECT_NE(disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 5, 6), 8),
            disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 5, 7), 8));
  // The numbers are part of what is on disk: pinned, so that no change of the code moves a block.
  EXPECT_EQ(disks_of(BlockAllocation(AllocationStrategy::kFullyRandom, weights, 5, 6), 8),
            (std::vector<unsigned>{2, 2, 0, 6, 7, 2, 6, 7}));
  EXPECT_EQ(disks_of(BlockAllocation(AllocationStrategy::kRandomCyclic, weights, 5, 6), 8),
            (std::vector<unsigned>{2, 1, 0, 7, 5, 4, 3, 6}));
}

TEST(BlockAllocation, NamesGoBothWays) {
  for (const AllocationStrategy strategy : kAll) {
    EXPECT_EQ(parse_allocation_strategy(allocation_strategy_name(strategy)), strategy);
  }
  try {
    parse_allocation_strategy("raid5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("random_cyclic"), std::string::npos) << error.what();
  }
}

TEST(BlockAllocation, RefusesWeightsThatLeaveNoDisk) {
  for (const AllocationStrategy strategy : kAll) {
    EXPECT_THROW(BlockAllocation(strategy, {}, 1, 1), Error);
    EXPECT_THROW(BlockAllocation(strategy, {0, 0}, 1, 1), Error);
    EXPECT_THROW(BlockAllocation(strategy, {1, -1}, 1, 1), Error);
    EXPECT_THROW(BlockAllocation(strategy, {1, std::nan("")}, 1, 1), Error);
  }
}

}  // namespace

}  // namespace vortex
