#include "study/merge_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "sort/merge/in_order_prefetch.h"
#include "sort/merge/prefetch_policy.h"
#include "tests/merge/merge_inputs.h"
#include "tests/support/random_seed.h"
#include "vortex/error.h"

namespace vortex::test::merge_simulation_test { namespace {

constexpr std::size_t kBlockBytes = 1000;
// A block a microsecond.
constexpr ServiceModel kDisk = {
    .read_bytes_per_s = 1'000'000'000, .write_bytes_per_s = 1'000'000'000, .seek_ns = 0};

MergeSimulationOptions on_disks(unsigned disks) {
  MergeSimulationOptions options;
  options.disks.assign(disks, kDisk);
  options.block_bytes = kBlockBytes;
  return options;
}

// One run of `blocks` blocks of 10 records, striped over `disks` disks.
MergeTrace one_run(unsigned blocks, unsigned disks) {
  std::vector<std::uint64_t> ends;
  for (unsigned block = 1; block <= blocks; ++block) ends.push_back(10 * block);
  MergeTrace trace = plain_merge_trace({ends});
  assign_disks(trace.order, allocations(AllocationStrategy::kStriping, disks, 1, 0));
  return trace;
}

MergeSimulationResult naive(const MergeTrace& trace, const MergeSimulationOptions& options,
                            std::size_t buffers) {
  NaivePrefetch policy(known_order(trace), {.disks = static_cast<unsigned>(options.disks.size()),
                                            .buffers = buffers,
                                            .held_blocks = trace.held_blocks});
  return simulate_merge(trace, policy, options);
}

TEST(MergeSimulation, ReadingAloneTakesTheDisksTime) {
  EXPECT_EQ(naive(one_run(12, 1), on_disks(1), 2).time_ns, 12000U);
  EXPECT_EQ(naive(one_run(12, 3), on_disks(3), 4).time_ns, 4000U);
  // With the one buffer that the merge holds, one block at a time is read.
  EXPECT_EQ(naive(one_run(12, 3), on_disks(3), 1).time_ns, 12000U);
}

TEST(MergeSimulation, MergingOverlapsWithReading) {
  MergeSimulationOptions options = on_disks(1);
  options.ns_per_record = 50;  // half the disk's time
  MergeSimulationResult result = naive(one_run(12, 1), options, 2);
  EXPECT_EQ(result.time_ns, 12000U + 500U);
  EXPECT_EQ(result.input_wait_ns, 12000U + 500U - 12 * 500U);
  options.ns_per_record = 200;  // twice the disk's time
  result = naive(one_run(12, 1), options, 2);
  EXPECT_EQ(result.time_ns, 1000U + 12 * 2000U);
  EXPECT_EQ(result.input_wait_ns, 1000U);
  // With one buffer nothing overlaps.
  EXPECT_EQ(naive(one_run(12, 1), options, 1).time_ns, 12 * 3000U);
}

TEST(MergeSimulation, WritesGoFirstAndTheMergeWaitsForBuffers) {
  MergeSimulationOptions options = on_disks(1);
  options.records_per_block = 10;
  options.write_buffers = 1;
  // Reading a block, and writing it: one after the other on one disk.
  const MergeSimulationResult result = naive(one_run(12, 1), options, 4);
  EXPECT_EQ(result.time_ns, 24000U);
  EXPECT_EQ(result.blocks_written, 12U);
  EXPECT_EQ(result.busy_ns, (std::vector<std::uint64_t>{24000}));
  // Five records in the last output block.
  options.records_per_block = 23;
  EXPECT_EQ(naive(one_run(12, 1), options, 4).blocks_written, 6U);
}

TEST(MergeSimulation, OneWriteBufferCannotBeFilledWhileItIsWritten) {
  MergeSimulationOptions options = on_disks(1);
  options.disks[0].read_bytes_per_s = 0;  // no time
  options.records_per_block = 10;
  options.ns_per_record = 50;
  options.write_buffers = 1;
  MergeSimulationResult result = naive(one_run(12, 1), options, 4);
  EXPECT_EQ(result.time_ns, 12 * (500U + 1000U));
  EXPECT_EQ(result.output_wait_ns, 11 * 1000U);
  options.write_buffers = 2;
  result = naive(one_run(12, 1), options, 4);
  EXPECT_EQ(result.time_ns, 500U + 12 * 1000U);
}

TEST(MergeSimulation, NeighboursNeedNoSeek) {
  MergeSimulationOptions options = on_disks(2);
  for (ServiceModel& disk : options.disks) disk.seek_ns = 5000;
  // One run: each disk seeks once.
  MergeSimulationResult result = naive(one_run(12, 2), options, 4);
  EXPECT_EQ(result.seeks, 2U);
  EXPECT_EQ(result.time_ns, 5000U + 6000U);
  // Reading and writing in turns: a seek for each.
  options.records_per_block = 10;
  options.write_buffers = 2;
  result = naive(one_run(12, 2), options, 2);
  EXPECT_GT(result.seeks, 12U);
  // Output gathered to batches seeks less.
  options.write_buffers = 8;
  options.write_batch = 6;
  EXPECT_LT(naive(one_run(12, 2), options, 8).seeks, result.seeks);
}

TEST(MergeSimulation, ForecastingDataTakesItsTime) {
  const Runs runs = {std::vector<Key>(100, 1), std::vector<Key>(100, 2)};
  const auto allocation = allocations(AllocationStrategy::kStriping, 2, 2, 0);
  const MergeTrace trace = plain_trace(runs, 1, allocation);
  MergeSimulationOptions options = on_disks(2);
  options.forecast_read_bytes = 500;
  std::uint64_t busy_before = 0;
  for (const std::uint64_t buffered_keys : {0, 10}) {
    std::unique_ptr<OrderOfNeed> order = foretold_by(runs, allocation, 1);
    if (buffered_keys != 0) {
      auto buffered = std::make_unique<BufferedForecasts>(
          std::move(order), std::vector<std::uint64_t>{100, 100}, buffered_keys);
      options.forecasts = buffered.get();
      order = std::move(buffered);
    }
    NaivePrefetch policy(std::move(order), {.disks = 2, .buffers = 4, .held_blocks = 2});
    const MergeSimulationResult result = simulate_merge(trace, policy, options);
    EXPECT_FALSE(result.stuck);
    EXPECT_EQ(result.forecast_reads, buffered_keys == 0 ? 0U : 20U);
    const std::uint64_t busy =
        std::accumulate(result.busy_ns.begin(), result.busy_ns.end(), std::uint64_t{0});
    EXPECT_EQ(busy, buffered_keys == 0 ? 200000U : busy_before + 20 * 500U);
    busy_before = busy;
  }
}

// Whatever the policy: all blocks are read and written once (read again when dropped), nothing is
// faster than the busiest disk or the processor, and the same is simulated twice with the same
// result.
TEST(MergeSimulation, NothingIsFasterThanItsParts) {
  auto random = test_random();
  for (unsigned round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const PrefetchKind kind = kAllPrefetchKinds[round % std::size(kAllPrefetchKinds)];
    const unsigned disks = 1 + random() % 5;
    const Runs runs =
        make_runs(kAllShapes[random() % std::size(kAllShapes)], 1 + random() % 8, 20, 5, random);
    const auto count = static_cast<std::uint32_t>(runs.size());
    const MergeTrace trace =
        plain_trace(runs, 5, allocations(random_strategy(random), disks, count, random()));
    MergeSimulationOptions options = on_disks(disks);
    for (ServiceModel& disk : options.disks) {
      disk.read_bytes_per_s /= 1 + random() % 4;
      disk.seek_ns = random() % 3000;
    }
    options.ns_per_record = static_cast<double>(random() % 300);
    options.records_per_block = 5;
    options.write_batch = 1 + random() % 6;
    options.write_buffers = options.write_batch + random() % 4;
    PrefetchOptions buffers = {.disks = disks, .buffers = 0, .held_blocks = trace.held_blocks};
    buffers.buffers = minimum_read_buffers(kind, buffers, count) + random() % 10;

    std::uint64_t time_ns = 0;
    for (unsigned repetition = 0; repetition < 2; ++repetition) {
      auto policy = make_prefetch_policy(kind, known_order(trace), buffers, count);
      const MergeSimulationResult result = simulate_merge(trace, *policy, options);
      ASSERT_FALSE(result.stuck);
      EXPECT_EQ(result.prefetch.fetches, trace.order.size() + result.prefetch.drops);
      EXPECT_EQ(result.blocks_written, (trace.records + 4) / 5);
      EXPECT_GE(result.time_ns, *std::max_element(result.busy_ns.begin(), result.busy_ns.end()));
      const auto processor_ns =
          static_cast<std::uint64_t>(options.ns_per_record * static_cast<double>(trace.records));
      EXPECT_GE(result.time_ns, processor_ns + result.input_wait_ns);
      if (repetition == 1) {
        EXPECT_EQ(result.time_ns, time_ns);
      }
      time_ns = result.time_ns;
    }
  }
}

// The case that the papers are about: one disk has the blocks needed next, the others are idle.
TEST(MergeSimulation, OptimalReadsWhereNaiveWaits) {
  auto random = test_random();
  const Runs runs = make_runs(RunShape::kUniform, 16, 100, 5, random);
  const MergeTrace trace =
      plain_trace(runs, 5, allocations(AllocationStrategy::kRandomCyclic, 8, 16, random()));
  const PrefetchOptions buffers = {.disks = 8, .buffers = 16 + 24, .held_blocks = 16};
  OptimalPrefetch optimal(known_order(trace), buffers, {.prefetch_blocks = 24});
  const std::uint64_t optimal_ns = simulate_merge(trace, optimal, on_disks(8)).time_ns;
  EXPECT_LT(optimal_ns, naive(trace, on_disks(8), buffers.buffers).time_ns);
  // Reads on their own take no longer than the parallel steps of the schedule.
  EXPECT_LE(optimal_ns, optimal.parallel_steps() * 1000U);
}

TEST(MergeSimulation, RefusesWhatMakesNoSense) {
  const MergeTrace trace = one_run(3, 1);
  NaivePrefetch policy(known_order(trace), {.disks = 1, .buffers = 1, .held_blocks = 1});
  EXPECT_THROW(simulate_merge(trace, policy, on_disks(2)), Error);
  EXPECT_THROW(simulate_merge(one_run(4, 1), policy, on_disks(1)), Error);
  MergeSimulationOptions options = on_disks(1);
  options.write_buffers = 2;
  options.write_batch = 3;
  EXPECT_THROW(simulate_merge(trace, policy, options), Error);
}

}  // namespace

}  // namespace vortex::test::merge_simulation_test
