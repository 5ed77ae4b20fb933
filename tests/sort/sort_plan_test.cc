#include "sort/sort_plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string>

#include "sort/merge_passes.h"
#include "sort/prefetch_policy.h"
#include "tests/support/random_seed.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"

namespace vortex::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

SortPlanRequest request_of(std::uint64_t bytes, std::size_t record_bytes,
                           std::uint64_t memory_bytes) {
  SortPlanRequest request;
  request.bytes = bytes;
  request.record_bytes = record_bytes;
  request.memory_bytes = memory_bytes;
  return request;
}

// Everything that whoever carries the plan out relies on.
void expect_consistent(const SortPlan& plan) {
  SCOPED_TRACE(to_string(plan));
  const SortPlanRequest& request = plan.request;
  EXPECT_LE(plan.pool_blocks * plan.block_bytes + plan.scratch_bytes + plan.forecast_memory_bytes,
            request.memory_bytes);
  EXPECT_GE(plan.block_bytes, request.record_bytes);
  EXPECT_GE(plan.block_bytes, kLeastBlockBytes);
  EXPECT_LE(plan.block_bytes, kMostBlockBytes);
  EXPECT_EQ(plan.window_blocks, plan.block_bytes % request.record_bytes == 0 ? 1U : 2U);
  EXPECT_EQ(plan.reader_blocks() + plan.writer_blocks(plan.write_behind, plan.request_bytes) +
                plan.bucket_blocks,
            plan.pool_blocks);
  EXPECT_GE(plan.buckets, 2U);
  EXPECT_EQ(plan.run_bytes % request.record_bytes, 0U);
  EXPECT_LE(plan.run_bytes, (plan.bucket_blocks - plan.buckets) * plan.block_bytes);
  EXPECT_GE(plan.run_bytes, request.record_bytes);
  if (plan.in_memory()) {
    EXPECT_LE(*request.bytes, plan.run_bytes);
    return;
  }
  if (request.bytes) {
    EXPECT_GE(plan.runs * plan.run_bytes, *request.bytes);
    EXPECT_LT((plan.runs - 1) * plan.run_bytes, *request.bytes);
    EXPECT_EQ(merge_passes(plan.runs, plan.merge_order), plan.passes);
  }
  EXPECT_GE(plan.merge_order, 2U);
  EXPECT_LE(plan.merge_order, plan.largest_merge_order());
  for (std::uint64_t runs = 2; runs <= plan.largest_merge_order();
       runs += 1 + (runs > 64) * runs / 3) {
    const MergeBuffers buffers = plan.merge_buffers(runs);
    PrefetchOptions options;
    options.disks = request.disks;
    options.held_blocks = static_cast<std::size_t>(runs) * plan.window_blocks;
    EXPECT_GE(buffers.read_buffers,
              minimum_read_buffers(request.prefetch, options, static_cast<std::uint32_t>(runs)));
    EXPECT_GE(buffers.write_behind, 1U);
    EXPECT_LE(
        buffers.read_buffers + plan.writer_blocks(buffers.write_behind, buffers.request_bytes),
        plan.pool_blocks);
  }
}

TEST(SortPlan, GibibytesOfBenchmarkRecordsInAQuarterOfAGibibyte) {
  const SortPlan plan = plan_sort(request_of(2048 * kMiB, 100, 256 * kMiB));
  expect_consistent(plan);
  EXPECT_EQ(plan.block_bytes, 2 * kMiB);
  EXPECT_EQ(plan.passes, 1U);
  EXPECT_LE(plan.runs, 13U);
}

TEST(SortPlan, WhatFitsIsSortedInMemory) {
  const SortPlan plan = plan_sort(request_of(100 * kMiB, 100, 256 * kMiB));
  expect_consistent(plan);
  EXPECT_TRUE(plan.in_memory());
  EXPECT_EQ(plan.passes, 0U);
  EXPECT_TRUE(plan_sort(request_of(0, 100, 256 * kMiB)).in_memory());
}

TEST(SortPlan, LittleMemoryTakesSeveralPasses) {
  const SortPlan plan = plan_sort(request_of(2 * 1024 * kMiB, 8, 8 * kMiB));
  expect_consistent(plan);
  EXPECT_GE(plan.passes, 2U);
}

TEST(SortPlan, LargerBlocksAreWorthAPassButNotSortingInMemory) {
  SortPlanRequest request = request_of(1000 * kMiB, 100, 16 * kMiB);
  const SortPlan large = plan_sort(request);
  EXPECT_GE(large.block_bytes, 128U << 10);
  EXPECT_EQ(large.passes, 2U);
  request.block_bytes = 32 << 10;
  EXPECT_EQ(plan_sort(request).passes, 1U);
  EXPECT_TRUE(plan_sort(request_of(1000 * kMiB, 100, 1050 * kMiB)).in_memory());
}

TEST(SortPlan, AnUnknownLengthIsPlannedForTheLargestMerge) {
  SortPlanRequest request = request_of(0, 100, 64 * kMiB);
  request.bytes.reset();
  const SortPlan plan = plan_sort(request);
  expect_consistent(plan);
  EXPECT_FALSE(plan.in_memory());
  EXPECT_EQ(plan.merge_order, plan.largest_merge_order());
}

// Every bucket reserves as much address space as there is memory.
TEST(SortPlan, LittleAddressSpaceMakesFewerBuckets) {
  SortPlanRequest request = request_of(640 * kMiB, 100, 1024 * kMiB);
  EXPECT_EQ(plan_sort(request).buckets, 64U);
  request.address_space_bytes = 32 * 1024 * kMiB;
  for (const bool known : {true, false}) {
    if (!known) request.bytes.reset();
    const SortPlan plan = plan_sort(request);
    expect_consistent(plan);
    EXPECT_EQ(plan.buckets, 16U);
    EXPECT_LE(plan.address_space_bytes(), request.address_space_bytes);
  }
  request = request_of(4096 * 1024 * kMiB, 100, 2048 * 1024 * kMiB);
  request.address_space_bytes = std::uint64_t{1} << 46;
  const SortPlan large = plan_sort(request);
  expect_consistent(large);
  EXPECT_LE(large.address_space_bytes(), request.address_space_bytes);
  // With less than any plan takes, the fewest; whoever carries it out says that it is too little.
  request = request_of(640 * kMiB, 100, 1024 * kMiB);
  request.address_space_bytes = 1;
  EXPECT_EQ(plan_sort(request).buckets, 2U);
}

TEST(SortPlan, TooLittleMemoryIsRefusedWithTheLeastThatWouldDo) {
  for (const std::size_t record : {1UL, 8UL, 100UL, 1000UL, 65536UL, 1UL << 20}) {
    SortPlanRequest request = request_of(1024 * kMiB, record, 100 << 10);
    try {
      (void)plan_sort(request);
      FAIL() << "planned with 100 KiB";
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), ENOMEM);
      const std::string message = error.what();
      const auto at = message.find("at least ");
      ASSERT_NE(at, std::string::npos) << message;
      // "7.25 MiB": taken at its word, with the rounding of two digits.
      const double value = std::stod(message.substr(at + 9));
      const double unit = message.find("GiB are needed") != std::string::npos   ? 1024.0 * kMiB
                          : message.find("MiB are needed") != std::string::npos ? double(kMiB)
                          : message.find("KiB are needed") != std::string::npos ? 1024.0
                                                                                : 1.0;
      request.memory_bytes = static_cast<std::uint64_t>(value * unit * 1.005);
      SCOPED_TRACE(message);
      expect_consistent(plan_sort(request));
      request.memory_bytes = static_cast<std::uint64_t>(value * unit * 0.9);
      EXPECT_THROW((void)plan_sort(request), Error);
    }
  }
}

TEST(SortPlan, ABlockSizeThatCannotBeIsRefused) {
  SortPlanRequest request = request_of(1024 * kMiB, 100, 256 * kMiB);
  for (const std::size_t block : {std::size_t{1} << 10, std::size_t{100000}, 2 * kMostBlockBytes}) {
    request.block_bytes = block;
    EXPECT_THROW((void)plan_sort(request), Error) << block;
  }
  request.record_bytes = 100000;
  request.block_bytes = std::size_t{64} << 10;
  EXPECT_THROW((void)plan_sort(request), Error);
}

TEST(SortPlan, AnyRequestIsPlannedConsistentlyOrRefused) {
  std::mt19937_64 random(test_seed());
  unsigned planned = 0;
  for (int round = 0; round < 3000; ++round) {
    SortPlanRequest request;
    if (random() % 8 != 0) request.bytes = random() >> (24 + random() % 40);
    request.record_bytes = 1 + random() % (std::size_t{1} << (random() % 21));
    request.forecast_bytes = random() % 2 * (random() % 64);
    request.memory_bytes = random() >> (28 + random() % 20);
    request.disks = 1 + static_cast<unsigned>(random() % 8);
    if (random() % 3 == 0) request.block_bytes = kLeastBlockBytes << (random() % 9);
    request.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
    if (request.bytes) *request.bytes -= *request.bytes % request.record_bytes;
    try {
      expect_consistent(plan_sort(request));
      ++planned;
    } catch (const Error&) {
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(planned, 500U);
}

}  // namespace
}  // namespace vortex::test
