// How a sort of lines divides its memory, which tests of whole sorts see as times only.
#include "lines/job/line_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace vortex::line_plan_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

LinePlan plan(std::uint64_t memory_bytes, std::optional<std::uint64_t> bytes) {
  SortResources resources;
  resources.memory_bytes = memory_bytes;
  resources.threads = 2;
  return plan_lines(resources, bytes);
}

std::uint64_t forming_bytes(const LinePlan& plan) {
  return plan.arena_bytes +
         plan.block_bytes *
             (FileSource::blocks_needed(plan.reader, plan.block_bytes) + plan.writing_blocks());
}

class LinePlans : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Memory, LinePlans,
                         ::testing::Values(kMiB, 3 * kMiB, 16 * kMiB, 64 * kMiB, 100 * kMiB,
                                           512 * kMiB, 1024 * kMiB, 5000 * kMiB));

TEST_P(LinePlans, WhatFitsHasMostOfTheMemory) {
  const std::uint64_t memory = GetParam();
  for (const std::uint64_t bytes : {std::uint64_t{0}, memory / 8, memory / 2}) {
    const LinePlan fits = plan(memory, bytes);
    EXPECT_GE(fits.arena_bytes, memory / 8 * 5) << bytes;
    EXPECT_LE(fits.reader.read_ahead, 4u) << bytes;
    EXPECT_LE(fits.run_write_behind, 4u) << bytes;
    EXPECT_LE(forming_bytes(fits), memory) << bytes;
  }
}

TEST_P(LinePlans, AnInputThatDoesNotFitIsReadFarAhead) {
  const std::uint64_t memory = GetParam();
  const LinePlan large = plan(memory, 100 * memory);
  EXPECT_LE(forming_bytes(large), memory);
  EXPECT_GE(large.arena_bytes, memory / 2);
  if (memory < 16 * kMiB) return;  // blocks are the smallest there are, and few
  EXPECT_GE(large.reader.read_ahead * large.block_bytes, memory / 10);
  EXPECT_LE(large.reader.read_ahead * large.block_bytes, memory / 8);
  EXPECT_GE(large.run_write_behind * large.block_bytes, memory / 25);
  EXPECT_LE(large.run_write_behind * large.block_bytes, memory / 20);
}

// However few blocks there are, as where requests are expensive.
TEST_P(LinePlans, ALineMayTakeAQuarter) {
  SortResources resources;
  resources.threads = 2;
  for (const std::uint64_t memory : {GetParam(), GetParam() / 4 * 5, GetParam() / 3 * 5}) {
    resources.memory_bytes = memory;
    for (const std::uint64_t cost : {std::uint64_t{0}, kMiB, 64 * kMiB}) {
      resources.request_cost_bytes = cost;
      for (const std::optional<std::uint64_t> bytes :
           {std::optional<std::uint64_t>(), std::optional(memory / 2), std::optional(100 * memory),
            std::optional(std::uint64_t{1} << 40)}) {
        const LinePlan plan = plan_lines(resources, bytes);
        EXPECT_GE(plan.longest_record, memory / 4)
            << memory << ", " << cost << ", " << bytes.value_or(0);
      }
    }
  }
}

// Each of them has a reader of its own.
TEST_P(LinePlans, SortedInputsAreNotReadFarAhead) {
  const std::uint64_t memory = GetParam();
  const LinePlan large = plan(memory, 100 * memory);
  EXPECT_LE(large.merged_reader.read_ahead, 4u);
  EXPECT_GE(large.most_inputs(), 2u);
  EXPECT_LE(large.most_inputs() * FileSource::blocks_needed(large.merged_reader, large.block_bytes),
            large.pool_blocks / 2);
}

}  // namespace

}  // namespace vortex::line_plan_test
