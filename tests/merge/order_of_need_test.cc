// The two orders of need, and why each merge needs its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "sort/merge/in_order_prefetch.h"
#include "study/buffered_forecasts.h"
#include "study/merge_simulation.h"
#include "study/merge_trace.h"
#include "tests/merge/merge_inputs.h"
#include "tests/support/random_seed.h"

namespace vortex::test::order_of_need_test { namespace {

// The order in which a merge through plain pointers touches blocks, seen from the sorted output: a
// block is touched when the one before it in its run has given its last record.
std::vector<NeededBlock> order_from_output(const Runs& runs, unsigned records_per_block) {
  std::vector<std::tuple<Key, std::uint32_t, std::uint64_t>> output;
  std::vector<NeededBlock> order;
  for (std::uint32_t run = 0; run < runs.size(); ++run) {
    if (!runs[run].empty()) order.push_back({run, 0, 0});
    for (std::uint64_t i = 0; i < runs[run].size(); ++i) output.emplace_back(runs[run][i], run, i);
  }
  std::sort(output.begin(), output.end());
  for (const auto& [key, run, index] : output) {
    if ((index + 1) % records_per_block == 0 && index + 1 < runs[run].size()) {
      order.push_back({run, 0, (index + 1) / records_per_block});
    }
  }
  return order;
}

TEST(OrderOfNeed, ParticipationOrderIsTheOneOfTheMerge) {
  auto random = test_random();
  for (unsigned round = 0; round < 300; ++round) {
    const RunShape shape = kAllShapes[round % std::size(kAllShapes)];
    const unsigned records_per_block = 1 + random() % 9, disks = 1 + random() % 5;
    const Runs runs = make_runs(shape, 1 + random() % 8, 12, records_per_block, random);
    const auto allocation = allocations(random_strategy(random), disks, runs.size(), round);
    auto expected = order_from_output(runs, records_per_block);
    assign_disks(expected, allocation);

    const auto order = foretold_by(last_keys(runs, records_per_block), allocation, 1);
    EXPECT_EQ(order->blocks(), expected.size());
    EXPECT_EQ(whole_order(*order), expected);
    EXPECT_EQ(plain_trace(runs, records_per_block, allocation).order, expected);
  }
}

TEST(OrderOfNeed, RunsWithoutBlocksAreLeftOut) {
  const Runs runs = {{}, {1, 2, 3}, {}, {2, 2}};
  const auto allocation = allocations(AllocationStrategy::kStriping, 2, runs.size(), 0);
  const auto order = foretold_by(last_keys(runs, 1), allocation, 1);
  EXPECT_EQ(whole_order(*order),
            (std::vector<NeededBlock>{{1, 0, 0}, {3, 0, 0}, {1, 1, 1}, {1, 0, 2}, {3, 1, 1}}));
}

TEST(OrderOfNeed, ForecastingDataIsReadThroughSmallBuffers) {
  const Runs runs = {std::vector<Key>(23, 1), std::vector<Key>(1, 5), std::vector<Key>(8, 3)};
  const auto allocation = allocations(AllocationStrategy::kStriping, 2, runs.size(), 0);
  const auto in_memory = foretold_by(last_keys(runs, 1), allocation, 1);
  BufferedForecasts buffered(foretold_by(last_keys(runs, 1), allocation, 1), {23, 1, 8}, 7);
  EXPECT_EQ(buffered.reads(), 2U);  // the first keys of the runs that forecast anything
  EXPECT_EQ(whole_order(*in_memory), whole_order(buffered));
  // 22, 0 and 7 forecasting keys, 7 to a buffer.
  EXPECT_EQ(buffered.reads(), 4U + 0U + 1U);
}

// Lemma 3 of the SPAA paper: the merger that takes blocks by their smallest keys, k at a time,
// sorts; it needs no more than k blocks, with many equal keys too.
TEST(OrderOfNeed, BlockMergerSorts) {
  auto random = test_random();
  for (unsigned round = 0; round < 300; ++round) {
    const RunShape shape = kAllShapes[round % std::size(kAllShapes)];
    const unsigned records_per_block = 1 + random() % 9;
    const Runs runs = make_runs(shape, 1 + random() % 8, 12, records_per_block, random);
    std::vector<Key> expected, merged;
    for (const auto& run : runs) expected.insert(expected.end(), run.begin(), run.end());
    std::sort(expected.begin(), expected.end());

    MergeTrace trace = block_merge_trace(runs, records_per_block, std::less<Key>(), &merged);
    EXPECT_EQ(merged, expected);
    EXPECT_LE(trace.held_blocks, runs.size());

    const auto allocation = allocations(AllocationStrategy::kFullyRandom, 3, runs.size(), round);
    assign_disks(trace.order, allocation);
    const auto order = foretold_by(first_keys(runs, records_per_block), allocation, 0);
    EXPECT_EQ(order->blocks(), trace.order.size());
    EXPECT_EQ(whole_order(*order), trace.order);
  }
}

// How many of 40 merges through plain pointers end with the merge waiting for ever, when blocks are
// fetched in `order` with the least buffers.
enum class By { kLastKeys, kSmallestKeys };

unsigned stuck_merges(By by, RunShape shape) {
  auto random = test_random();
  unsigned stuck = 0;
  for (unsigned instance = 0; instance < 40; ++instance) {
    constexpr unsigned kRecordsPerBlock = 8, kDisks = 4;
    const Runs runs = make_runs(shape, 12, 20, kRecordsPerBlock, random);
    const auto allocation =
        allocations(AllocationStrategy::kRandomCyclic, kDisks, runs.size(), instance);
    const MergeTrace trace = plain_trace(runs, kRecordsPerBlock, allocation);
    const auto by_smallest = foretold_by(first_keys(runs, kRecordsPerBlock), allocation, 0);
    const MergeTrace told = by == By::kLastKeys ? trace : retold(trace, whole_order(*by_smallest));
    const PrefetchOptions options = {
        .disks = kDisks, .buffers = runs.size() + kDisks, .held_blocks = runs.size()};
    NaivePrefetch policy(known_order(told), options);
    MergeSimulationOptions simulation;
    simulation.disks.resize(kDisks);
    stuck += simulate_merge(told, policy, simulation).stuck;
  }
  return stuck;
}

TEST(OrderOfNeed, PlainPointersNeedTheOrderByLastKeys) {
  for (const RunShape shape : kAllShapes) EXPECT_EQ(stuck_merges(By::kLastKeys, shape), 0U);
}

// Why the order by smallest keys will not do: run r asks for its next block the moment the one it
// has is used up; among many blocks with the same smallest key the order fetches those of other
// runs first, until all buffers hold blocks that nobody can take.
TEST(OrderOfNeed, PlainPointersWaitForEverWithTheOrderBySmallestKeys) {
  EXPECT_GT(stuck_merges(By::kSmallestKeys, RunShape::kAllEqual), 20U);
  EXPECT_GT(stuck_merges(By::kSmallestKeys, RunShape::kFewDistinct), 20U);
}

TEST(OrderOfNeed, BlockMergerNeverWaitsForEverWithTheOrderBySmallestKeys) {
  auto random = test_random();
  for (unsigned round = 0; round < 120; ++round) {
    const RunShape shape = kAllShapes[round % std::size(kAllShapes)];
    const Runs runs = make_runs(shape, 12, 20, 8, random);
    MergeTrace trace = block_merge_trace(runs, 8);
    assign_disks(trace.order, allocations(random_strategy(random), 4, runs.size(), round));
    NaivePrefetch policy(
        known_order(trace),
        {.disks = 4, .buffers = trace.held_blocks, .held_blocks = trace.held_blocks});
    MergeSimulationOptions simulation;
    simulation.disks.resize(4);
    EXPECT_FALSE(simulate_merge(trace, policy, simulation).stuck);
  }
}

}  // namespace

}  // namespace vortex::test::order_of_need_test
