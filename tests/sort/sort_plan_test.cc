#include "io/disk/request.h"
#include "sort/plan/record_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>

#include "sort/merge/merge_passes.h"
#include "sort/merge/prefetch_policy.h"
#include "sort/plan/forming_plan.h"
#include "sort/record/format_order.h"
#include "sort/runs/bucket_sorters.h"
#include "tests/support/child_peak.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/input_stream.h"
#include "vortex/os/reservation.h"

namespace vortex::test::sort_plan_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr unsigned kManyThreads[] = {1, 2, 7, 16, 64, 128};

SortPlanRequest request_of(std::uint64_t bytes, std::size_t record_bytes,
                           std::uint64_t memory_bytes) {
  SortPlanRequest request;
  request.bytes = bytes;
  request.record_bytes = record_bytes;
  request.memory_bytes = memory_bytes;
  return request;
}

// Everything that whoever carries the plan out relies on.
void expect_consistent(const RecordPlan& plan) {
  SCOPED_TRACE(to_string(plan));
  const SortPlanRequest& request = plan.request;
  EXPECT_LE(plan.memory_taken_bytes(), request.memory_bytes);
  EXPECT_GE(plan.memory_taken_bytes(), plan.pool_blocks * plan.block_bytes +
                                           plan.formation.scratch_bytes +
                                           plan.forecast_memory_bytes);
  EXPECT_GE(plan.block_bytes, request.record_bytes);
  EXPECT_GE(plan.block_bytes, kMinBlockBytes);
  EXPECT_LE(plan.block_bytes, kMaxBlockBytes);
  EXPECT_EQ(plan.window_blocks, plan.block_bytes % request.record_bytes == 0 ? 1U : 2U);
  EXPECT_LE(BlockPool::maps_needed(plan.pool_blocks), request.most_maps);
  EXPECT_LE(plan.address_space_bytes(), request.address_space_bytes);
  const std::size_t reading = FileReaderBase::blocks_needed(plan.reader, plan.block_bytes);
  const std::size_t writing = FileWriterBase::blocks_needed(plan.writer, plan.block_bytes);
  EXPECT_EQ(reading + writing + plan.bucket_blocks, plan.pool_blocks);
  EXPECT_LE(plan.window_blocks + plan.run_write_behind, writing);
  const FileWriterOptions wide = plan.wide_writer();
  EXPECT_EQ(FileWriterBase::blocks_needed(wide, plan.block_bytes), writing);
  EXPECT_GE(wide.write_behind, 1U);
  EXPECT_EQ(wide.comeback_blocks + 1, plan.window_blocks + plan.wide_of(wide));
  EXPECT_GE(plan.formation.buckets, 2U);
  EXPECT_EQ(plan.run_bytes % request.record_bytes, 0U);
  EXPECT_LE(plan.run_bytes, (plan.bucket_blocks - plan.formation.buckets) * plan.block_bytes);
  EXPECT_GE(plan.run_bytes, request.record_bytes);
  EXPECT_LE(plan.expected_runs, plan.runs);
  EXPECT_LE(plan.expected_passes, plan.passes);
  if (plan.in_memory()) {
    EXPECT_LE(*request.bytes, plan.run_bytes);
    return;
  }
  if (request.bytes) {
    EXPECT_GE(plan.runs * plan.least_run_bytes, *request.bytes);
    EXPECT_LT((plan.runs - 1) * plan.least_run_bytes, *request.bytes);
    EXPECT_LE(plan.least_run_bytes, plan.run_bytes);
    EXPECT_EQ(merge_passes(plan.runs, plan.merge_order), plan.passes);
    EXPECT_LE(plan.expected_runs, plan.runs);
    EXPECT_EQ(merge_passes(plan.expected_runs, plan.merge_order), plan.expected_passes);
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
    EXPECT_GE(buffers.writer.write_behind, 1U);
    const std::size_t taken = FileWriterBase::blocks_needed(buffers.writer, plan.block_bytes);
    EXPECT_LE(buffers.read_buffers + taken, plan.pool_blocks);
    EXPECT_LE(plan.window_blocks + buffers.run_write_behind, taken);
  }
}

RecordPlan consistent_plan(const SortPlanRequest& request) {
  const RecordPlan plan = plan_sort(request);
  expect_consistent(plan);
  return plan;
}

TEST(SortPlan, GibibytesOfBenchmarkRecordsInAQuarterOfAGibibyte) {
  const RecordPlan plan = consistent_plan(request_of(2048 * kMiB, 100, 256 * kMiB));
  EXPECT_EQ(plan.block_bytes, 2 * kMiB);
  EXPECT_EQ(plan.passes, 1U);
  EXPECT_LE(plan.runs, 13U);
}

TEST(SortPlan, WhatFitsIsSortedInMemory) {
  const RecordPlan plan = consistent_plan(request_of(100 * kMiB, 100, 256 * kMiB));
  EXPECT_TRUE(plan.in_memory());
  EXPECT_EQ(plan.passes, 0U);
  EXPECT_TRUE(plan_sort(request_of(0, 100, 256 * kMiB)).in_memory());
}

// The disk writes two buckets while the processors sort the next.
TEST(SortPlan, WhatFitsWithRoomToSpareIsWrittenFromMoreBlocks) {
  const RecordPlan tight = consistent_plan(request_of(3600 * kMiB, 8, 4096 * kMiB));
  const RecordPlan wide = consistent_plan(request_of(1024 * kMiB, 8, 4096 * kMiB));
  const auto bytes_behind = [](const RecordPlan& plan) {
    return plan.writer.write_behind * std::max(plan.writer.request_bytes, plan.block_bytes);
  };
  EXPECT_GE(bytes_behind(wide), 2 * *wide.request.bytes / wide.formation.buckets);
  EXPECT_LE(bytes_behind(wide), bytes_behind(tight) + 64 * kMiB);
  EXPECT_LE(bytes_behind(tight), 16 * kMiB);
}

TEST(SortPlan, LittleMemoryTakesSeveralPasses) {
  const RecordPlan plan = consistent_plan(request_of(2 * 1024 * kMiB, 8, 8 * kMiB));
  EXPECT_GE(plan.passes, 2U);
}

TEST(SortPlan, LargerBlocksAreWorthAPassButNotSortingInMemory) {
  SortPlanRequest request = request_of(1000 * kMiB, 100, 16 * kMiB);
  const RecordPlan large = plan_sort(request);
  EXPECT_GE(large.block_bytes, 128U << 10);
  EXPECT_EQ(large.passes, 2U);
  request.block_bytes = 32 << 10;
  EXPECT_EQ(plan_sort(request).passes, 1U);
  EXPECT_TRUE(plan_sort(request_of(1000 * kMiB, 100, 1050 * kMiB)).in_memory());
}

// A part for each thread and one more, as far as runs are not much shorter for it.
TEST(SortPlan, ManyThreadsHaveScratchForAPartEach) {
  const auto scratch_of = [](unsigned threads, std::size_t record_bytes, std::size_t per_record) {
    SortPlanRequest request = request_of(8192 * kMiB, record_bytes, 1024 * kMiB);
    request.threads = threads;
    request.scratch_per_record = per_record;
    return consistent_plan(request).formation.scratch_bytes;
  };
  const std::size_t bucket = 2 * 1024 * kMiB / 64;  // when it is sorted
  EXPECT_GE(scratch_of(4, 100, 32), 5 * bucket * 32 / 100);
  EXPECT_LE(scratch_of(2, 100, 32), bucket * 32 / 100 + kMiB);
  EXPECT_GE(scratch_of(4, 16, 16), 48 * kMiB);
  EXPECT_LE(scratch_of(64, 16, 16), 1024 * kMiB / 8);
}

// Half of many threads partition; a little memory has no stripes for several.
TEST(SortPlan, SeveralThreadsPartitionWhereManySort) {
  const auto threads_of = [](unsigned threads, std::uint64_t memory_bytes) {
    SortPlanRequest request = request_of(8192 * kMiB, 8, memory_bytes);
    request.threads = threads;
    return consistent_plan(request).formation.partition_threads;
  };
  EXPECT_EQ(threads_of(1, 1024 * kMiB), 1U);
  EXPECT_EQ(threads_of(3, 1024 * kMiB), 1U);
  EXPECT_EQ(threads_of(4, 1024 * kMiB), 2U);
  EXPECT_EQ(threads_of(32, 1024 * kMiB), 16U);
  EXPECT_EQ(threads_of(64, 4096 * kMiB), 32U);
  EXPECT_EQ(threads_of(128, 4096 * kMiB), 64U);
  EXPECT_EQ(threads_of(32, 16 * kMiB), 1U);
}

// What is pushed at once comes from nobody who works meanwhile: all partition, but half of them
// while others sort. What they keep is in the plan.
TEST(SortPlan, AllThreadsPartitionWhatIsPushed) {
  for (const std::size_t record_bytes : {8U, 16U, 100U}) {
    for (unsigned threads = 1; threads <= 128; ++threads) {
      for (const std::uint64_t of_thread : {1U, 4U, 32U}) {
        SCOPED_TRACE(std::to_string(threads) + " threads, records of " +
                     std::to_string(record_bytes) + ", " + std::to_string(of_thread) + " MiB each");
        SortPlanRequest request;
        request.record_bytes = record_bytes;
        request.memory_bytes = threads * of_thread * kMiB + 4 * kMiB;
        request.threads = threads;
        request.most_buckets = std::max(request.most_buckets, buckets_for(threads));
        request.pushed = true;
        const RecordPlan plan = consistent_plan(request);
        const RunFormationOptions& forming = plan.formation;
        EXPECT_LE(forming.partition_threads, threads);
        EXPECT_EQ(forming.partitioners_beside(),
                  std::min(threads < 4 ? 1 : threads / 2, forming.partition_threads));
        EXPECT_LE(forming.batch_blocks, std::max<std::size_t>(plan.pool_blocks / 32, 1));
        if (of_thread < 32) continue;
        EXPECT_EQ(forming.partition_threads, threads);
        EXPECT_GE(forming.batch_blocks * plan.block_bytes,
                  threads == 1 ? 0
                               : std::min<std::uint64_t>(threads * kMiB / 4,
                                                         plan.pool_blocks / 32 * plan.block_bytes));
      }
    }
  }
}

// Where several copy, a writer of what is in memory has rooms that they share; else none.
TEST(SortPlan, RoomsAreAsWideAsCopiersTake) {
  for (const unsigned threads : kManyThreads) {
    for (const std::uint64_t mib : {64U, 1024U}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(mib) + " MiB");
      SortPlanRequest request = request_of(mib / 4 * kMiB, 8, mib * kMiB);
      request.threads = threads;
      request.scratch_per_record = 8;
      const RecordPlan plan = consistent_plan(request);
      ASSERT_TRUE(plan.in_memory());
      const std::size_t wide = plan.wide_of(plan.wide_writer());
      EXPECT_EQ(plan.wide_of(plan.writer), 0U);
      if (threads < 4) {
        EXPECT_EQ(wide, 0U);
      } else {
        EXPECT_GE(wide * plan.block_bytes, BucketSorters::kLeastSharedBytes);
        EXPECT_LE(wide, blocks_behind(plan.writer, plan.block_bytes) / 2);
      }
    }
  }
}

// What is partitioned at a time has a stripe of 256 KiB for each who partitions, and of 4 KiB for
// each of many buckets, and more of it is read meanwhile, as long as that is a small part of the
// memory.
TEST(SortPlan, BatchesGrowWithTheThreads) {
  const auto plan_of = [](unsigned threads, std::uint64_t memory_bytes) {
    SortPlanRequest request = request_of(16 * memory_bytes, 8, memory_bytes);
    request.threads = threads;
    request.scratch_per_record = 8;
    return consistent_plan(request);
  };
  for (const unsigned threads : kManyThreads) {
    SCOPED_TRACE(threads);
    const RecordPlan plan = plan_of(threads, 4096 * kMiB);
    const std::uint64_t partition = threads < 4 ? 1 : threads / 2;
    EXPECT_EQ(plan.formation.partition_threads, partition);
    const std::uint64_t batch = plan.formation.batch_blocks * plan.block_bytes;
    const std::uint64_t of_buckets = partition == 1 ? 0 : partition * buckets_for(threads) * 4096;
    const std::uint64_t wanted = std::max(
        partition * kMiB / 4, std::min(of_buckets, plan.pool_blocks / 128 * plan.block_bytes));
    EXPECT_GE(batch, wanted);
    EXPECT_LT(batch, wanted + plan.block_bytes);
    if (threads == 64) {
      EXPECT_GT(batch, 2 * partition * kMiB / 4);
    }
    EXPECT_EQ(plan.reader.comeback_blocks + 1, plan.formation.batch_blocks);
    EXPECT_GE(plan.reader.read_ahead * plan.reader.request_bytes, threads < 4 ? 0 : 2 * batch);
    const RecordPlan little = plan_of(threads, 256 * kMiB);
    EXPECT_LE(little.formation.batch_blocks, std::max<std::size_t>(little.pool_blocks / 32, 1));
  }
}

// What threads keep that partition and sort grows with their number, and whoever has more of them
// has several that do so where fewer had.
TEST(SortPlan, WhatThreadsKeepGrowsWithTheirNumber) {
  for (const std::size_t record_bytes : {8U, 16U, 100U}) {
    const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
    const auto plan_of = [&](unsigned threads, std::uint64_t memory_bytes) {
      SortPlanRequest request =
          request_of(16 * memory_bytes / record_bytes * record_bytes, record_bytes, memory_bytes);
      request.threads = threads;
      request.scratch_per_record = record_bytes == 8 ? 8 : 16;
      request.most_buckets = std::max(request.most_buckets, buckets_for(threads));
      return plan_sort(request);
    };
    const auto sorters_of = [&](const RecordPlan& plan) {
      const std::size_t records = plan.memory_for_buckets() / record_bytes;
      return std::min<std::size_t>(
          plan.threads, BucketSorters::parts_of(order, 2 * records, plan.formation.buckets,
                                                plan.threads, plan.formation.scratch_bytes));
    };
    for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U, 1000U}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, records of " +
                   std::to_string(record_bytes));
      const RecordPlan plan = plan_of(threads, threads * 32 * kMiB);
      EXPECT_EQ(plan.formation.partition_threads, threads < 4 ? 1 : threads / 2);
      EXPECT_LE(bytes_of_partitioners(plan), threads * (kMiB / 3));
      EXPECT_LE(plan.formation.batch_blocks * plan.block_bytes,
                std::max<std::uint64_t>(plan.block_bytes, threads * kMiB / 4));
      EXPECT_LE(plan.formation.scratch_bytes, threads * 4 * kMiB);
      EXPECT_GE(sorters_of(plan), std::min(threads, 128U) / 2);
      if (record_bytes <= 16 && threads <= 128) {
        EXPECT_EQ(sorters_of(plan_of(threads, threads * 64 * kMiB)), threads);
      }
    }
    for (std::uint64_t mib = 8; mib <= 1024; mib *= 2) {
      std::size_t partition = 1, sort = 1;
      for (unsigned threads = 1; threads <= 128; ++threads) {
        SCOPED_TRACE(std::to_string(threads) + " threads, records of " +
                     std::to_string(record_bytes) + ", " + std::to_string(mib) + " MiB");
        const RecordPlan plan = plan_of(threads, mib * kMiB);
        EXPECT_GE(plan.formation.partition_threads, std::min<std::size_t>(partition, 2));
        EXPECT_GE(sorters_of(plan), std::min<std::size_t>(sort, 2));
        partition = plan.formation.partition_threads;
        sort = sorters_of(plan);
      }
    }
  }
}

// An arm that takes 8 ms where 200 MB/s are moved is worth larger blocks. What requests cost an SSD
// is less than what they cost the processors.
TEST(SortPlan, ExpensiveRequestsMakeLargeBlocks) {
  const auto block_of = [](std::uint64_t memory_bytes, std::uint64_t request_cost_bytes) {
    SortPlanRequest request = request_of(8192 * kMiB, 8, memory_bytes);
    request.threads = 2;
    request.scratch_per_record = 8;
    request.request_cost_bytes = request_cost_bytes;
    return consistent_plan(request).block_bytes;
  };
  for (const std::uint64_t memory_bytes : {64 * kMiB, 1024 * kMiB}) {
    const std::size_t cheap = block_of(memory_bytes, 0);
    EXPECT_EQ(block_of(memory_bytes, 60 << 10), cheap);
    EXPECT_GE(block_of(memory_bytes, 1600 << 10), 2 * cheap);
  }
  EXPECT_EQ(block_of(1024 * kMiB, 0), 2 * kMiB);
}

// Each thread merges a part where requests cost little, as to files in memory; where they cost as
// much as blocks, the disk is slower than two threads. Neither one thread nor two give up what they
// hold of the last run for it. Records that straddle blocks hold two of each run.
TEST(SortPlan, AllThreadsMergePartsWhereRequestsAreCheap) {
  const auto plan_of = [](std::size_t record_bytes, unsigned threads, std::uint64_t cost) {
    SortPlanRequest request =
        request_of(12'000 * kMiB / record_bytes * record_bytes, record_bytes, 1024 * kMiB);
    request.threads = threads;
    request.scratch_per_record = record_bytes == 8 ? 8 : 16;
    request.request_cost_bytes = cost;
    request.in_parts = true;
    return consistent_plan(request);
  };
  for (const std::size_t record_bytes : {8U, 16U, 100U}) {
    const std::uint64_t held = plan_of(record_bytes, 1, 0).told().kept_bytes;
    for (const unsigned threads : {1U, 2U, 4U, 16U, 64U, 128U}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, records of " +
                   std::to_string(record_bytes));
      for (const std::uint64_t cost : {0U, 40U << 10, 250U << 10}) {
        const SortPlan plan = plan_of(record_bytes, threads, cost).told();
        EXPECT_GE(plan.merge_parts, std::min(threads, record_bytes == 100 ? 12U : 16U));
        EXPECT_LE(plan.block_bytes, 2 * kMiB);
        if (threads <= 2) {
          EXPECT_GE(plan.kept_bytes, held / 10 * 9);
        }
      }
      const SortPlan far = plan_of(record_bytes, threads, 1600 << 10).told();
      EXPECT_LE(far.merge_parts, 2U);
      EXPECT_GE(far.block_bytes, 2 * kMiB);
    }
  }
}

// Sorted inputs are merged in parts as far as there is memory for a reader of each input and a
// writer in each; in smaller blocks, if more threads have room then. No part is short.
TEST(SortPlan, AllThreadsMergeSortedInputsWhereThereIsRoom) {
  const auto plan_of = [](std::uint64_t inputs, unsigned threads, std::uint64_t memory_bytes,
                          std::uint64_t cost = 0, std::uint64_t bytes = 12'000 * kMiB) {
    SortPlanRequest request = request_of(bytes / 100 * 100, 100, memory_bytes);
    request.threads = threads;
    request.request_cost_bytes = cost;
    request.in_parts = true;
    const RecordPlan plan = plan_input_merge(request, inputs);
    EXPECT_LE(plan.memory_taken_bytes(), request.memory_bytes);
    EXPECT_GE(
        plan.pool_blocks,
        plan.merge_parts * (inputs * FileReaderBase::blocks_needed(plan.reader, plan.block_bytes) +
                            FileWriterBase::blocks_needed(plan.writer, plan.block_bytes)));
    EXPECT_LE(plan.merge_parts, threads);
    EXPECT_GE(plan.merge_parts, 1U);
    EXPECT_EQ(plan.runs, 1U);
    return plan;
  };
  for (const unsigned threads : kManyThreads) {
    EXPECT_GE(plan_of(2, threads, 2048 * kMiB).merge_parts, std::min(threads, 32U));
    EXPECT_GE(plan_of(16, threads, 2048 * kMiB).merge_parts, std::min(threads, 8U));
    EXPECT_GE(plan_of(256, threads, 2048 * kMiB).merge_parts, std::min(threads, 3U));
    EXPECT_EQ(plan_of(16, threads, 2048 * kMiB, 1600 << 10).merge_parts, std::min(threads, 2U));
    EXPECT_EQ(plan_of(2, threads, 2048 * kMiB, 0, kMiB / 16).merge_parts, 1U);
  }
  const RecordPlan few = plan_of(2, 16, 2048 * kMiB), many = plan_of(64, 16, 2048 * kMiB);
  EXPECT_EQ(few.block_bytes, 2 * kMiB);
  EXPECT_LT(many.block_bytes, few.block_bytes);
  EXPECT_EQ(plan_of(64, 1, 2048 * kMiB).block_bytes, few.block_bytes);
  // Where address space is short, too.
  SortPlanRequest request = request_of(1000 * kMiB, 100, 256 * kMiB);
  request.threads = 16;
  request.in_parts = true;
  const std::uint64_t taken = plan_input_merge(request, 30).address_space_bytes();
  request.address_space_bytes = taken - 1;
  const RecordPlan less = plan_input_merge(request, 30);
  EXPECT_LT(less.address_space_bytes(), taken);
  request.in_parts = false;
  EXPECT_EQ(plan_input_merge(request, 30).merge_parts, 1U);
}

// A little more than the memory is read and written at once, in eight runs; longer inputs in runs
// of the memory, and those of unknown length, too, since they may fit.
TEST(SortPlan, RunsOfShortInputsBeginEarly) {
  SortPlanRequest request = request_of(1024 * kMiB, 8, 1024 * kMiB);
  request.threads = 2;
  request.scratch_per_record = 8;
  const RecordPlan plan = consistent_plan(request);
  EXPECT_EQ(plan.run_begin_bytes, 128 * kMiB);
  EXPECT_EQ(plan.runs, 8U);
  EXPECT_EQ(plan.passes, 1U);
  EXPECT_GT(plan.run_bytes, 768 * kMiB);
  request.threads = 1;  // that reads or writes
  EXPECT_EQ(plan_sort(request).run_begin_bytes, 0U);
  request.threads = 2;
  request.bytes = 2048 * kMiB;
  EXPECT_EQ(plan_sort(request).run_begin_bytes, 0U);
  request.bytes = 256 * kMiB;
  EXPECT_TRUE(plan_sort(request).in_memory());
  request.bytes.reset();
  EXPECT_EQ(plan_sort(request).run_begin_bytes, 0U);
}

TEST(SortPlan, AnUnknownLengthIsPlannedForTheLargestMerge) {
  SortPlanRequest request = request_of(0, 100, 64 * kMiB);
  request.bytes.reset();
  const RecordPlan plan = consistent_plan(request);
  EXPECT_FALSE(plan.in_memory());
  EXPECT_EQ(plan.merge_order, plan.largest_merge_order());
}

// Every bucket reserves as much address space as there is memory.
TEST(SortPlan, LittleAddressSpaceMakesFewerBuckets) {
  SortPlanRequest request = request_of(640 * kMiB, 100, 1024 * kMiB);
  EXPECT_EQ(plan_sort(request).formation.buckets, 64U);
  request.address_space_bytes = 38 * 1024 * kMiB;
  for (const bool known : {true, false}) {
    if (!known) request.bytes.reset();
    const RecordPlan plan = consistent_plan(request);
    // Of what is known to fit, a part of the pool goes to the output; buckets reserve the rest.
    EXPECT_EQ(plan.formation.buckets, known ? 32U : 16U);
  }
  request = request_of(4096 * 1024 * kMiB, 100, 2048 * 1024 * kMiB);
  request.address_space_bytes = std::uint64_t{1} << 46;
  consistent_plan(request);
}

// Nearly as long as the memory: whether it fits there depends on the buckets.
TEST(SortPlan, LittleAddressSpaceIsPlannedForWhateverTheLength) {
  unsigned planned = 0, refused = 0;
  for (const std::uint64_t mib : {64U, 256U, 1024U}) {
    for (std::uint64_t percent = 70; percent <= 100; ++percent) {
      for (const std::uint64_t times : {4U, 8U, 12U, 15U, 16U, 20U, 24U, 32U, 40U}) {
        SCOPED_TRACE(std::to_string(mib) + " MiB, " + std::to_string(percent) + " percent");
        SortPlanRequest request = request_of(mib * kMiB * percent / 100, 8, mib * kMiB);
        request.scratch_per_record = 8;
        request.address_space_bytes = times * mib * kMiB;
        try {
          consistent_plan(request);
          ++planned;
        } catch (const Error& error) {
          EXPECT_EQ(error.code().value(), ENOMEM);
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(planned, refused);
}

// First runs become shorter, then nobody emits them beside.
TEST(SortPlan, LittleAddressSpaceMakesShortRuns) {
  SortPlanRequest request = request_of(640 * kMiB, 100, 64 * kMiB);
  EXPECT_FALSE(plan_sort(request).formation.emits_beside);
  request.threads = 2;
  const RecordPlan two = consistent_plan(request);
  EXPECT_TRUE(two.formation.emits_beside);
  EXPECT_EQ(two.formation.most_run_bytes, *request.bytes);
  request.address_space_bytes = two.address_space_bytes() - 1;
  const RecordPlan shorter = consistent_plan(request);
  EXPECT_TRUE(shorter.formation.emits_beside);
  EXPECT_EQ(shorter.formation.most_run_bytes, shorter.memory_for_buckets());
  EXPECT_EQ(shorter.run_bytes, two.run_bytes);
  EXPECT_GE(shorter.expected_runs * shorter.formation.most_run_bytes, *request.bytes);
  request.address_space_bytes = shorter.address_space_bytes() - 1;
  const RecordPlan one = consistent_plan(request);
  EXPECT_FALSE(one.formation.emits_beside);
  EXPECT_EQ(one.formation.buckets, two.formation.buckets);
  EXPECT_FALSE(one.formation.fits);
  // A sort in memory is not overlapped with a run.
  const RunFormationOptions in_memory = plan_sort(request_of(8 * kMiB, 100, 64 * kMiB)).formation;
  EXPECT_FALSE(in_memory.emits_beside);
  EXPECT_TRUE(in_memory.fits);
}

// Guards, stacks and the streams of a merge are part of what is needed. More is never worse.
TEST(SortPlan, TooLittleAddressSpaceIsRefusedWithWhatIsNeeded) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    SortPlanRequest request =
        request_of(random() >> (30 + random() % 20), 100, kMiB << (random() % 12));
    if (random() % 4 == 0) request.bytes.reset();
    request.stack_bytes = random() % 4 * (8 * kMiB);
    request.threads = 1 + random() % 2;
    RecordPlan plan;
    if (error_of([&] { plan = plan_sort(request); }) != 0) continue;  // too little memory
    SCOPED_TRACE(to_string(plan));
    const std::uint64_t pool_bytes = plan.pool_blocks * plan.block_bytes;
    const std::uint64_t guards =
        plan.in_memory() || !request.bytes ? 1 : plan.merge_order * kReservationGuardBytes;
    EXPECT_GE(plan.address_space_bytes(),
              pool_bytes + request.bytes.value_or(0) + request.stack_bytes + guards);
    const auto planned_within = [&](std::uint64_t bytes) {
      request.address_space_bytes = bytes;
      std::string message;
      const int error = error_of([&] { consistent_plan(request); }, &message);
      if (error == 0) return true;
      EXPECT_EQ(error, ENOMEM);
      EXPECT_TRUE(contains(message, " of address space"));
      return false;
    };
    std::uint64_t low = 0, high = plan.address_space_bytes();
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (planned_within(middle) ? high : low) = middle;
    }
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(planned_within(high + (random() >> (random() % 64)) / 2));
      EXPECT_FALSE(planned_within(random() % high));
    }
    if (HasFailure()) break;
  }
}

// A pool takes two maps a block and two more; the kernel's limit is 65530, and an eighth of that is
// left to the program.
TEST(SortPlan, BlocksGrowWhereTheMapsDoNotSuffice) {
  constexpr std::uint64_t kGiB = 1024 * kMiB;
  SortPlanRequest request = request_of(1024 * kGiB, 100, 0);
  request.most_maps = 65530 / 8 * 7;
  std::size_t block_before = 0;
  for (const std::uint64_t memory : {32, 64, 128, 256, 512, 1024, 1536}) {
    request.memory_bytes = memory * kGiB;
    for (const bool known : {true, false}) {
      request.bytes = known ? std::optional(1024 * kGiB) : std::nullopt;
      const RecordPlan plan = consistent_plan(request);
      EXPECT_GE(plan.block_bytes, block_before);
      block_before = plan.block_bytes;
    }
  }
  EXPECT_GE(block_before, 32 * kMiB);
  request.memory_bytes = 40 * kGiB;  // 20 480 blocks of 2 MiB
  EXPECT_EQ(plan_sort(request).block_bytes, 2 * kMiB);
  // A few maps only: the largest blocks, and then none.
  request = request_of(1024 * kMiB, 100, 256 * kMiB);
  request.most_maps = 100;
  EXPECT_EQ(plan_sort(request).block_bytes, 8 * kMiB);
  request.most_maps = 10;
  EXPECT_THROW((void)plan_sort(request), Error);
}

TEST(SortPlan, BlocksForWhichTheMapsDoNotSufficeAreRefused) {
  SortPlanRequest request = request_of(4096 * kMiB, 100, 1024 * kMiB);
  request.block_bytes = 16 << 10;
  const std::size_t maps = BlockPool::maps_needed(plan_sort(request).pool_blocks);
  request.most_maps = maps;
  consistent_plan(request);
  request.most_maps = maps - 1;
  EXPECT_TRUE(fails([&] { (void)plan_sort(request); }, ENOMEM,
                    {std::to_string(maps) + " memory maps, and " + std::to_string(maps - 1),
                     "vm.max_map_count"}));
}

// The memory that is kept of each block and each run counts: with small blocks it is a part of the
// memory that shows.
TEST(SortPlan, WhatIsKeptOfBuffersAndRunsIsCounted) {
  for (const std::size_t block : {std::size_t{16} << 10, std::size_t{64} << 10, 2 * kMiB}) {
    SortPlanRequest request = request_of(8192 * kMiB, 100, 512 * kMiB);
    request.block_bytes = block;
    const RecordPlan plan = plan_sort(request);
    SCOPED_TRACE(to_string(plan));
    const std::uint64_t buffers = plan.pool_blocks * sizeof(Request);
    const std::uint64_t streams = plan.merge_order * sizeof(InputStream<std::byte>);
    EXPECT_LE(plan.pool_blocks * block + plan.formation.scratch_bytes + plan.forecast_memory_bytes +
                  buffers + streams,
              request.memory_bytes);
  }
}

// Bytes and records beyond 2^32, with few runs and with many.
TEST(SortPlan, LengthsBeyond32BitsAreCountedWhole) {
  for (const unsigned bits : {32, 33, 40, 46}) {
    for (const std::size_t record : {1, 8, 100}) {
      for (const std::uint64_t memory : {256 * kMiB, 4096 * kMiB, 65536 * kMiB}) {
        const std::uint64_t records = (std::uint64_t{1} << bits) / record + 1;
        SortPlanRequest request = request_of(records * record, record, memory);
        request.block_bytes = 8 * kMiB;  // the tables of smaller ones take more than a small memory
        try {
          const RecordPlan plan = consistent_plan(request);
          EXPECT_EQ(plan.runs,
                    (records * record + plan.least_run_bytes - 1) / plan.least_run_bytes);
        } catch (const Error& error) {
          EXPECT_EQ(bits, 46U) << error.what();
        }
      }
    }
  }
}

TEST(SortPlan, TooLittleMemoryIsRefusedWithTheLeastThatWouldDo) {
  for (const std::size_t record : {1UL, 8UL, 100UL, 1000UL, 65536UL, 1UL << 20}) {
    SortPlanRequest request = request_of(1024 * kMiB, record, 100 << 10);
    std::string message;
    EXPECT_EQ(error_of([&] { (void)plan_sort(request); }, &message), ENOMEM);
    SCOPED_TRACE(message);
    // "7.25 MiB": taken at its word, with the rounding of two digits.
    const std::uint64_t named = named_memory(message);
    ASSERT_GT(named, 0U);
    request.memory_bytes = named / 1000 * 1005;
    consistent_plan(request);
    request.memory_bytes = named / 10 * 9;
    EXPECT_THROW((void)plan_sort(request), Error);
  }
}

// In steps of a few KiB, where blocks are counted whole.
TEST(SortPlan, MoreMemoryIsNeverRefused) {
  for (const PrefetchKind prefetch : {PrefetchKind::kOptimal, PrefetchKind::kStriped}) {
    for (const std::size_t record : {2, 16, 100}) {
      for (const unsigned threads : {1u, 2u}) {
        for (const unsigned disks : {1u, 2u, 3u}) {
          SortPlanRequest request = request_of(64 << 10, record, 0);
          request.prefetch = prefetch;
          request.threads = threads;
          request.disks = disks;
          bool planned = false;
          for (request.memory_bytes = 64 << 10; request.memory_bytes < kMiB;
               request.memory_bytes += 5 << 10) {
            SCOPED_TRACE(request.memory_bytes);
            std::string message;
            const int error = error_of([&] { consistent_plan(request); }, &message);
            ASSERT_TRUE(error == 0 || !planned) << message;
            planned |= error == 0;
          }
          EXPECT_TRUE(planned);
        }
      }
    }
  }
}

TEST(SortPlan, ABlockSizeThatCannotBeIsRefused) {
  SortPlanRequest request = request_of(1024 * kMiB, 100, 256 * kMiB);
  for (const std::size_t block : {std::size_t{1} << 10, std::size_t{100000}, 2 * kMaxBlockBytes}) {
    request.block_bytes = block;
    EXPECT_EQ(error_of([&] { (void)plan_sort(request); }), EINVAL) << block;
  }
  request.record_bytes = 100000;
  request.block_bytes = std::size_t{64} << 10;
  EXPECT_EQ(error_of([&] { (void)plan_sort(request); }), EINVAL);
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
    request.threads = 1 + static_cast<unsigned>(random() % 70);
    if (random() % 2 == 0) request.request_cost_bytes = random() % (8 * kMiB);
    if (random() % 3 == 0) request.block_bytes = kMinBlockBytes << (random() % 9);
    if (random() % 3 == 0) request.most_maps = random() % (std::size_t{1} << (random() % 20));
    request.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
    if (request.bytes) *request.bytes -= *request.bytes % request.record_bytes;
    planned += error_of([&] { consistent_plan(request); }) == 0 ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(planned, 500U);
}

}  // namespace

}  // namespace vortex::test::sort_plan_test
