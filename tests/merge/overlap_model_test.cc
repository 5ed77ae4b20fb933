// Theorem 4 of the SPAA paper, in its own model.
#include "study/overlap_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/merge/merge_inputs.h"
#include "tests/support/random_seed.h"

namespace vortex::test::overlap_model_test { namespace {

// The buffers of the theorem.
OverlapModelOptions with_buffers_of_the_theorem(OverlapModelOptions options, std::uint32_t runs) {
  options.overlap_blocks = runs + 3 * options.disks;
  options.write_records = 2 * options.disks * options.records_per_block;
  return options;
}

// k identical runs whose blocks of a row all end together: long pauses in which no block is needed,
// then k at once (section 2.3).
Runs irregular_runs(unsigned count, unsigned blocks, unsigned records_per_block) {
  Runs runs(count);
  for (auto& run : runs) {
    for (Key row = 0; row < blocks; ++row) {
      run.insert(run.end(), records_per_block - 1, 2 * row + 1);
      run.push_back(2 * row + 2);
    }
  }
  return runs;
}

// The model moment by moment, one unit of time after the other.
std::uint64_t slow_model(const MergeTrace& trace, const OverlapModelOptions& options) {
  const std::uint64_t step_records = options.disks * options.records_per_block;
  std::uint64_t merged = 0, written = 0, fetched = 0, arrived = 0, taken = 0, step = 0;
  std::uint64_t working = 0, io_left = 0, fetching = 0, writing = 0;
  for (std::uint64_t time = 0;; ++time) {
    for (int again = 0; again < 2; ++again) {
      if (io_left == 0) {
        const std::uint64_t to_fetch =
            std::min<std::uint64_t>(options.disks, trace.order.size() - fetched);
        if (merged - written >= step_records || (merged == trace.records && merged != written)) {
          writing = std::min(step_records, merged - written);
          io_left = options.step_time;
        } else if (to_fetch > 0 && fetched - taken + to_fetch <= options.overlap_blocks) {
          fetching = to_fetch;
          fetched += to_fetch;
          io_left = options.step_time;
        }
      }
      while (working == 0 && step < trace.steps.size() &&
             trace.steps[step].records_before == merged) {
        if (trace.steps[step].taken != kNoPosition) {
          if (taken == arrived) break;
          ++taken;
        }
        ++step;
      }
    }
    if (written == trace.records) return time;
    const bool blocked = merged == trace.records || merged - written >= options.write_records ||
                         (step < trace.steps.size() && trace.steps[step].records_before == merged);
    if (working != 0 || !blocked) {
      if (++working == options.record_time) {
        working = 0;
        ++merged;
      }
    }
    if (io_left != 0 && --io_left == 0) {
      written += std::exchange(writing, 0);
      arrived += std::exchange(fetching, 0);
    }
  }
}

TEST(OverlapModel, AgreesWithTheModelMomentByMoment) {
  auto random = test_random();
  for (unsigned round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const unsigned records_per_block = 1 + random() % 6;
    const Runs runs = make_runs(kAllShapes[round % std::size(kAllShapes)], 1 + random() % 6, 8,
                                records_per_block, random);
    const MergeTrace trace = random() % 2 == 0
                                 ? block_merge_trace(runs, records_per_block)
                                 : plain_merge_trace(merged_block_ends(runs, records_per_block));
    OverlapModelOptions options = {.disks = static_cast<unsigned>(1 + random() % 4),
                                   .records_per_block = records_per_block,
                                   .step_time = 1 + random() % 40,
                                   .record_time = 1 + random() % 8};
    options = with_buffers_of_the_theorem(options, trace.runs);
    // Fewer buffers than the theorem's too, as long as nothing gets stuck.
    if (random() % 2 == 0) options.overlap_blocks = options.disks + random() % 3;
    const OverlapModelResult result = run_overlap_model(trace, options);
    ASSERT_FALSE(result.stuck);
    ASSERT_EQ(result.time, slow_model(trace, options));
  }
}

// Merge time at most max(2 L N' / (D B), l N') + L (k / D + 3), for inputs regular and irregular,
// bound by disks, by the processor, and where the two meet.
void expect_theorem(const MergeTrace& trace, OverlapModelOptions options) {
  options = with_buffers_of_the_theorem(options, trace.runs);
  const OverlapModelResult result = run_overlap_model(trace, options);
  ASSERT_FALSE(result.stuck);
  ASSERT_LE(result.time, overlap_model_bound(trace, options))
      << "k " << trace.runs << " D " << options.disks << " B " << options.records_per_block << " L "
      << options.step_time << " l " << options.record_time << " N' " << trace.records;
}

TEST(OverlapModel, Theorem4HoldsForTheIrregularExample) {
  for (const unsigned runs : {1U, 2U, 5U, 16U, 40U}) {
    for (const unsigned disks : {1U, 2U, 4U, 8U}) {
      constexpr unsigned kRecordsPerBlock = 24;
      const Runs input = irregular_runs(runs, 12, kRecordsPerBlock);
      const MergeTrace by_blocks = block_merge_trace(input, kRecordsPerBlock);
      const MergeTrace plain = plain_merge_trace(merged_block_ends(input, kRecordsPerBlock));
      for (std::uint64_t step_time = 10; step_time < 1000; step_time = step_time * 5 / 4) {
        const OverlapModelOptions options = {.disks = disks,
                                             .records_per_block = kRecordsPerBlock,
                                             .step_time = step_time,
                                             .record_time = 2};
        expect_theorem(by_blocks, options);
        expect_theorem(plain, options);
      }
    }
  }
}

TEST(OverlapModel, Theorem4HoldsForRandomInputs) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 50000 : 1000;
  for (unsigned round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const unsigned records_per_block = 2 + random() % 20;
    // Whole blocks, as in the model.
    Runs runs = make_runs(kAllShapes[round % std::size(kAllShapes)], 1 + random() % 20, 20,
                          records_per_block, random);
    for (auto& run : runs) {
      run.resize((run.size() + records_per_block - 1) / records_per_block * records_per_block,
                 run.back());
    }
    const MergeTrace trace = random() % 2 == 0
                                 ? block_merge_trace(runs, records_per_block)
                                 : plain_merge_trace(merged_block_ends(runs, records_per_block));
    const auto disks = static_cast<unsigned>(1 + random() % 8);
    const std::uint64_t record_time = 1 + random() % 10;
    // Around the place where disks and processor take the same time.
    const std::uint64_t balance = disks * records_per_block * record_time / 2 + 1;
    const OverlapModelOptions options = {.disks = disks,
                                         .records_per_block = records_per_block,
                                         .step_time = 1 + random() % (3 * balance),
                                         .record_time = record_time};
    expect_theorem(trace, options);
    if (HasFailure()) return;
  }
}

// Without the k blocks for overlapping the irregular example costs what the theorem excludes.
TEST(OverlapModel, TheIrregularExampleNeedsOverlapBlocks) {
  constexpr unsigned kRuns = 40, kDisks = 4, kRecordsPerBlock = 24;
  const MergeTrace trace =
      block_merge_trace(irregular_runs(kRuns, 30, kRecordsPerBlock), kRecordsPerBlock);
  OverlapModelOptions options = {.disks = kDisks,
                                 .records_per_block = kRecordsPerBlock,
                                 .step_time = kDisks * kRecordsPerBlock,
                                 .record_time = 2};
  options = with_buffers_of_the_theorem(options, kRuns);
  const std::uint64_t with = run_overlap_model(trace, options).time;
  EXPECT_LE(with, overlap_model_bound(trace, options));
  options.overlap_blocks = kDisks;
  const std::uint64_t without = run_overlap_model(trace, options).time;
  EXPECT_GT(without, overlap_model_bound(trace, options));
}

TEST(OverlapModel, SaysWhenItIsStuck) {
  const MergeTrace trace = block_merge_trace(irregular_runs(2, 3, 4), 4);
  const OverlapModelOptions options = {.disks = 4,
                                       .records_per_block = 4,
                                       .step_time = 1,
                                       .record_time = 1,
                                       .overlap_blocks = 3,
                                       .write_records = 100};
  EXPECT_TRUE(run_overlap_model(trace, options).stuck);
}

}  // namespace

}  // namespace vortex::test::overlap_model_test
