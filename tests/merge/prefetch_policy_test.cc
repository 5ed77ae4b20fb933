// The promises of all prefetch policies, under random events.
#include "sort/merge/prefetch_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "sort/merge/forecast_and_flush.h"
#include "sort/merge/in_order_prefetch.h"
#include "sort/merge/striped_prefetch.h"
#include "tests/merge/merge_inputs.h"
#include "tests/merge/policy_driver.h"
#include "tests/support/error_of.h"
#include "tests/support/policy_name.h"
#include "tests/support/random_seed.h"
#include "vortex/error.h"

namespace vortex::test::prefetch_policy_test { namespace {

// A merge that keeps the last `comeback` blocks it has used up, of each run.
MergeTrace with_comeback(const MergeTrace& trace, unsigned comeback) {
  MergeTrace result = trace;
  result.held_blocks = trace.held_blocks * (comeback + 1);
  std::vector<std::deque<Position>> kept(trace.runs);
  for (MergeStep& step : result.steps) {
    if (step.released == kNoPosition) continue;
    auto& blocks = kept[trace.order[step.released].run];
    blocks.push_back(step.released);
    step.released = kNoPosition;
    if (blocks.size() > comeback) {
      step.released = blocks.front();
      blocks.pop_front();
    }
  }
  for (auto& blocks : kept) {
    for (const Position position : blocks) {
      result.steps.push_back({.records_before = trace.records, .released = position});
    }
  }
  return result;
}

class EveryPolicy : public ::testing::TestWithParam<PrefetchKind> {};

INSTANTIATE_TEST_SUITE_P(, EveryPolicy, ::testing::ValuesIn(kAllPrefetchKinds), policy_name);

// Every block is delivered once, in the order of need; no more buffers are used than there are;
// dropped blocks are fetched again; and no merge waits for ever, from the stated minimum of buffers
// on, whatever the keys, the placement of the blocks and the speeds of disks and merge.
TEST_P(EveryPolicy, DeliversEveryBlockWithAnyNumberOfBuffersFromTheMinimumOn) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 20000 : 600;
  for (unsigned round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const RunShape shape = kAllShapes[random() % std::size(kAllShapes)];
    const unsigned disks = 1 + random() % 6, records_per_block = 1 + random() % 6;
    const Runs runs =
        make_runs(shape, 1 + random() % 10, 1 + random() % 30, records_per_block, random);
    const auto count = static_cast<std::uint32_t>(runs.size());
    const unsigned comeback = random() % 2;
    const MergeTrace trace =
        with_comeback(plain_trace(runs, records_per_block,
                                  allocations(random_strategy(random), disks, count, random())),
                      comeback);

    PrefetchOptions options = {.disks = disks, .buffers = 0, .held_blocks = trace.held_blocks};
    const std::size_t minimum = minimum_read_buffers(GetParam(), options, count);
    options.buffers = minimum + (round % 2 == 0 ? 0 : random() % 20);
    auto policy =
        make_prefetch_policy(GetParam(), known_order(trace), options, count, {}, 1 + random() % 3);
    const DriverResult result = PolicyDriver(trace, *policy, random).run();
    ASSERT_FALSE(result.stuck) << "with " << options.buffers << " buffers, " << minimum
                               << " being the minimum";
    ASSERT_LE(result.peak_buffers, options.buffers);
    if (HasFailure()) return;
  }
}

// The merger of the SPAA paper with its own order of need. (Striped prefetching keeps two buffers a
// run, and this merger knows no runs.)
TEST(PrefetchPolicy, FeedsTheBlockMerger) {
  auto random = test_random();
  for (unsigned round = 0; round < 800; ++round) {
    SCOPED_TRACE(round);
    constexpr PrefetchKind kKinds[] = {PrefetchKind::kOptimal, PrefetchKind::kNaive,
                                       PrefetchKind::kForecastAndFlush,
                                       PrefetchKind::kAsynchronousForecastAndFlush};
    const PrefetchKind kind = kKinds[round % std::size(kKinds)];
    const RunShape shape = kAllShapes[random() % std::size(kAllShapes)];
    const Runs runs = make_runs(shape, 1 + random() % 10, 20, 4, random);
    const auto count = static_cast<std::uint32_t>(runs.size());
    MergeTrace trace = block_merge_trace(runs, 4);
    const unsigned disks = 1 + random() % 5;
    assign_disks(trace.order, allocations(random_strategy(random), disks, count, random()));
    PrefetchOptions options = {.disks = disks, .buffers = 0, .held_blocks = trace.held_blocks};
    options.buffers = minimum_read_buffers(kind, options, count);
    auto policy = make_prefetch_policy(kind, known_order(trace), options, count);
    ASSERT_FALSE(PolicyDriver(trace, *policy, random).run().stuck);
    if (HasFailure()) return;
  }
}

TEST_P(EveryPolicy, SaysHowManyBuffersWouldDo) {
  const Runs runs = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  const MergeTrace trace =
      plain_trace(runs, 1, allocations(AllocationStrategy::kStriping, 2, runs.size(), 0));
  PrefetchOptions options = {.disks = 2, .buffers = 0, .held_blocks = 3};
  const std::size_t minimum = minimum_read_buffers(GetParam(), options, 3);
  options.buffers = minimum - 1;
  EXPECT_TRUE(fails([&] { make_prefetch_policy(GetParam(), known_order(trace), options, 3); },
                    ENOBUFS, "at least " + std::to_string(minimum)));
}

TEST_P(EveryPolicy, EmptyMergesAreOver) {
  PrefetchOptions options = {.disks = 3, .buffers = 50, .held_blocks = 0};
  auto policy = make_prefetch_policy(
      GetParam(), std::make_unique<KnownOrder>(std::vector<NeededBlock>{}), options, 0);
  EXPECT_EQ(policy->next().kind, PrefetchAction::Kind::kNothing);
}

// The optimal policy for any part of its buffers, computed for disks of any speeds.
TEST(OptimalPrefetch, EverySplitOfTheBuffersWorks) {
  auto random = test_random();
  for (unsigned round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const unsigned disks = 1 + random() % 6;
    const Runs runs =
        make_runs(kAllShapes[random() % std::size(kAllShapes)], 1 + random() % 8, 20, 3, random);
    const auto count = static_cast<std::uint32_t>(runs.size());
    const MergeTrace trace =
        plain_trace(runs, 3, allocations(random_strategy(random), disks, count, random()));
    OptimalPrefetch::Split split{.prefetch_blocks = 1 + random() % 20};
    if (round % 3 == 0) {
      for (unsigned disk = 0; disk < disks; ++disk) split.block_times.push_back(1 + random() % 5);
    }
    PrefetchOptions options = {.disks = disks, .buffers = 0, .held_blocks = trace.held_blocks};
    options.buffers = OptimalPrefetch::minimum_buffers(options, split);
    OptimalPrefetch policy(known_order(trace), options, split);
    EXPECT_EQ(policy.prefetch_blocks(), split.prefetch_blocks);
    const DriverResult result = PolicyDriver(trace, policy, random).run();
    ASSERT_FALSE(result.stuck);
    EXPECT_EQ(result.drops, 0U);
    if (HasFailure()) return;
  }
}

// Several merges of a phase, one prefetch order over all of them (SPAA, section 2.4): the second
// merge's blocks are read while the first still runs.
TEST(OptimalPrefetch, OneOrderForAWholePhase) {
  auto random = test_random();
  for (unsigned round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    MergeTrace phase;
    std::vector<NeededBlock> order;
    for (unsigned merge = 0; merge < 3; ++merge) {
      const Runs runs = make_runs(RunShape::kFewDistinct, 1 + random() % 6, 10, 3, random);
      MergeTrace trace = plain_trace(
          runs, 3, allocations(AllocationStrategy::kRandomCyclic, 4, runs.size(), random()));
      const auto first = static_cast<Position>(phase.order.size());
      for (NeededBlock block : trace.order) {
        block.run += phase.runs;
        phase.order.push_back(block);
      }
      for (MergeStep step : trace.steps) {
        step.records_before += phase.records;
        if (step.released != kNoPosition) step.released += first;
        if (step.taken != kNoPosition) step.taken += first;
        phase.steps.push_back(step);
      }
      phase.records += trace.records;
      phase.runs += trace.runs;
      phase.held_blocks = std::max(phase.held_blocks, trace.held_blocks);
    }
    const PrefetchOptions options = {
        .disks = 4, .buffers = phase.held_blocks + 8, .held_blocks = phase.held_blocks};
    OptimalPrefetch policy(known_order(phase), options);
    ASSERT_FALSE(PolicyDriver(phase, policy, random).run().stuck);
    if (HasFailure()) return;
  }
}

TEST(StripedPrefetch, RefusesAComebackOfMoreThanAStripe) {
  EXPECT_THROW(StripedPrefetch(std::make_unique<KnownOrder>(std::vector<NeededBlock>{}),
                               {.disks = 2, .buffers = 100, .held_blocks = 8}, 2),
               Error);
}

TEST(PrefetchKind, NamesGoBothWays) {
  for (const PrefetchKind kind : kAllPrefetchKinds) {
    EXPECT_EQ(parse_prefetch_kind(prefetch_kind_name(kind)), kind);
  }
  EXPECT_TRUE(fails([] { parse_prefetch_kind("lru"); }, EINVAL, "optimal"));
}

}  // namespace

}  // namespace vortex::test::prefetch_policy_test
