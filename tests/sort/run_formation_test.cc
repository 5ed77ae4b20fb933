#include "sort/runs/run_formation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "sort/plan/forming_plan.h"
#include "sort/plan/record_plan.h"
#include "sort/record/format_order.h"
#include "sort/record/record_output.h"
#include "tests/sort/record_lists.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_sink.h"
#include "tests/support/memory_source.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "tests/vortex/placing.h"
#include "vortex/block_pool.h"
#include "vortex/detail/merge/record_kernels.h"
#include "vortex/detail/merge/record_sort.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/input_stream.h"
#include "vortex/os/memory.h"
#include "vortex/output_stream.h"

namespace vortex::run_formation_test { namespace {

using test::RecordCollector;
using test::RecordList;
using test::Shape;

constexpr std::size_t kBlock = std::size_t{16} << 10;

struct Memory {
  explicit Memory(std::size_t blocks, std::size_t block_bytes = kBlock,
                  PoolKind kind = BlockPoolOptions().kind)
      : pool({.pool_bytes = blocks * block_bytes,
              .block_bytes = block_bytes,
              .warming = Warming::kOnDemand,
              .kind = kind}),
        streams(pool, blocks) {}
  BlockPool pool;
  StreamPool streams;
};

std::size_t least_scratch(std::size_t blocks, std::size_t record_bytes) {
  return detail::least_sort_scratch_bytes(blocks * kBlock / record_bytes);
}

RecordList part_of(const RecordList& list, std::size_t first, std::size_t count) {
  const auto begin = list.bytes.begin() + static_cast<std::ptrdiff_t>(first * list.record_bytes);
  return {list.record_bytes,
          {begin, begin + static_cast<std::ptrdiff_t>(count * list.record_bytes)}};
}

// Emits the run that holds the `count` records of `list` from `first` on, and checks it.
void expect_run(RunFormation& runs, const RecordOrder& order, StreamPool& streams,
                const RecordList& list, std::size_t first, std::size_t count) {
  ASSERT_EQ(runs.records(), count);
  RecordCollector out(list.record_bytes);
  runs.emit(out);
  EXPECT_EQ(runs.records(), 0u);
  ASSERT_EQ(streams.blocks_in_use(), 0u);
  ASSERT_TRUE(
      test::same_bytes(out.list.bytes, stably_sorted(order, part_of(list, first, count)).bytes))
      << "records " << first << " to " << first + count;
}

// Pushes all of `list`, `most_at_once` records or fewer at a time, in as many runs as it takes.
// Returns how many.
template <typename Random>
void expect_runs(const RecordOrder& order, const RecordList& list, std::size_t blocks,
                 RunFormationOptions options, std::size_t most_at_once, Random& random,
                 std::size_t* full_runs) {
  Memory memory(blocks);
  {
    RunFormation runs(order, memory.streams, options);
    std::size_t first = 0, pushed = 0;
    *full_runs = 0;
    while (pushed < list.count()) {
      const std::size_t here =
          std::min(list.count() - pushed,
                   most_at_once < 3 ? most_at_once : 1 + std::size_t{random() % most_at_once});
      const std::size_t taken = runs.push(list.at(pushed), here);
      ASSERT_LE(taken, here);
      pushed += taken;
      ASSERT_EQ(runs.records(), pushed - first);
      if (taken == here) continue;
      // A full run: every block is in use, and less than a block of each bucket is empty.
      ASSERT_EQ(memory.streams.blocks_in_use(), blocks);
      ASSERT_GT((pushed - first) * list.record_bytes, (blocks - runs.buckets()) * kBlock);
      ++*full_runs;
      ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, first, pushed - first));
      first = pushed;
    }
    ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, first, pushed - first));
  }
  EXPECT_EQ(memory.pool.statistics().blocks_in_use, 0u);
}

TEST_OF_ONE_THREAD(RunFormation, LikeStableSort) {
  auto random = test::test_random();
  std::size_t runs_of_all = 0;
  for (const std::size_t record_bytes :
       {1u, 2u, 3u, 4u, 8u, 12u, 16u, 24u, 31u, 32u, 64u, 100u, 128u, 129u, 500u, 1000u}) {
    for (const Shape shape : test::kShapes) {
      const std::size_t blocks = 1 + random() % 30;
      // At most about four runs.
      const std::size_t count = random() % (4 * blocks * kBlock / record_bytes) % 20000;
      const RecordList list = test::make_records(shape, record_bytes, count, random);
      const FormatOrder order(test::random_format(record_bytes, random));
      const std::size_t least = least_scratch(blocks, record_bytes);
      const RunFormationOptions options = {
          .buckets = 1 + static_cast<unsigned>(random() % 100),
          .scratch_bytes = random() % 2 == 0 ? least : least + random() % (1 << 20)};
      SCOPED_TRACE(to_string(order.format()) + ", " + std::to_string(count) + " of shape " +
                   std::to_string(static_cast<int>(shape)) + ", blocks " + std::to_string(blocks) +
                   ", buckets " + std::to_string(options.buckets) + ", scratch " +
                   std::to_string(options.scratch_bytes));
      std::size_t full_runs = 0;
      const std::size_t most_at_once = random() % 4 == 0 ? 1 : 1 + random() % 4000;
      ASSERT_NO_FATAL_FAILURE(
          expect_runs(order, list, blocks, options, most_at_once, random, &full_runs));
      runs_of_all += full_runs;
    }
  }
  EXPECT_GT(runs_of_all, 20u);
}

TEST_OF_ONE_THREAD(RunFormation, AtEveryFillLevel) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {1000u, 3000u, 16384u}) {
    for (const std::size_t blocks : {1u, 2u, 5u, 9u}) {
      Memory memory(blocks);
      const FormatOrder order(RecordFormat(record_bytes, {{0, 2, {}, false}}));
      RunFormation runs(order, memory.streams,
                        {.buckets = 3, .scratch_bytes = least_scratch(blocks, record_bytes)});
      const RecordList list = test::make_records(Shape::kRandom, record_bytes,
                                                 blocks * kBlock / record_bytes + 1, random);
      bool full = false;
      for (std::size_t count = 0; count <= list.count() && !full; ++count) {
        const std::size_t taken = runs.push(list.at(0), count);
        full = taken < count;
        ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, 0, taken));
      }
      EXPECT_TRUE(full);
    }
  }
}

// A full pool stays full: what was refused is refused again, and is the first of the next run.
TEST_OF_ONE_THREAD(RunFormation, FullIsFull) {
  auto random = test::test_random();
  Memory memory(8);
  const FormatOrder order(RecordFormat(100, {{0, 10, {}, false}}));
  RunFormation runs(order, memory.streams, {.buckets = 2, .scratch_bytes = 1 << 16});
  const RecordList list = test::make_records(Shape::kRandom, 100, 3000, random);
  const std::size_t taken = runs.push(list.at(0), 3000);
  ASSERT_LE(taken, 8 * kBlock / 100);
  EXPECT_EQ(runs.push(list.at(taken), 1), 0u);
  EXPECT_EQ(runs.push(list.at(taken), 3000 - taken), 0u);
  ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, 0, taken));
  const std::size_t again = runs.push(list.at(taken), 3000 - taken);
  EXPECT_GT(again, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, taken, again));
}

// Runs as they come out: what each is, the sum of all, and whether equal records keep their order.
struct Runs {
  std::vector<RecordList> lists;
  bool is_open = false;
  std::size_t falling = 0;  // that came from their last bucket on

  void emit_next(RunFormation& formation, std::size_t record_bytes) {
    const RunFormation::Next next = formation.next();
    falling += !is_open && next.falls;
    if (!is_open) lists.push_back({record_bytes, {}});
    RecordCollector out(record_bytes);
    const bool is_complete = formation.emit_next(out);
    EXPECT_EQ(out.list.bytes.size(), next.bytes);
    auto& bytes = lists.back().bytes;
    bytes.insert(next.falls ? bytes.begin() : bytes.end(), out.list.bytes.begin(),
                 out.list.bytes.end());
    is_open = !is_complete;
  }
};

// Pushes all of `list`, as a sort does, with another thread that emits or without.
Runs form_runs(const RecordOrder& order, const RecordList& list, std::size_t blocks,
               const RunFormationOptions& options, std::mt19937_64& random) {
  const std::size_t record_bytes = order.record_bytes();
  Memory memory(blocks);
  Runs runs;
  {
    RunFormation formation(order, memory.streams, options);
    std::thread emitter;
    if (options.emits_beside) {
      emitter = std::thread([&] {
        while (formation.await_closed()) runs.emit_next(formation, record_bytes);
      });
    }
    const auto emit = [&] {
      while (!options.emits_beside && formation.closed() != 0) {
        runs.emit_next(formation, record_bytes);
      }
    };
    for (std::size_t pushed = 0; pushed < list.count();) {
      const std::size_t here = std::min(list.count() - pushed, 1 + std::size_t{random() % 3000});
      const std::uint32_t ticket = formation.room_event().ticket();
      const std::size_t taken = formation.push(list.at(pushed), here);
      pushed += taken;
      if (taken == here) continue;
      EXPECT_TRUE(options.emits_beside || memory.streams.blocks_in_use() == blocks);
      if (formation.wants_room()) {
        EXPECT_TRUE(formation.close_next());
        emit();
      } else {
        formation.room_event().await(ticket);
      }
    }
    while (formation.records() != 0) {
      const std::uint32_t ticket = formation.room_event().ticket();
      if (!formation.close_next()) formation.room_event().await(ticket);
      emit();
    }
    formation.end();
    if (emitter.joinable()) emitter.join();
    while (formation.await_closed()) runs.emit_next(formation, record_bytes);
    EXPECT_FALSE(runs.is_open);
    EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
  }
  EXPECT_EQ(memory.pool.statistics().blocks_in_use, 0u);
  return runs;
}

// The same in one thread. Of as many buckets as it could emit, it emits one in `pace`; 0: as many
// only as it has to.
Runs form_runs_at(unsigned pace, const RecordOrder& order, const RecordList& list,
                  std::size_t blocks, const RunFormationOptions& options, std::mt19937_64& random) {
  const std::size_t record_bytes = order.record_bytes();
  Memory memory(blocks);
  RunFormation formation(order, memory.streams, options);
  Runs runs;
  const auto emit = [&] {
    while (pace != 0 && formation.closed() != 0 && random() % pace == 0) {
      runs.emit_next(formation, record_bytes);
    }
  };
  for (std::size_t pushed = 0; pushed < list.count(); emit()) {
    const std::size_t here = std::min(list.count() - pushed, 1 + std::size_t{random() % 3000});
    const std::size_t taken = formation.push(list.at(pushed), here);
    pushed += taken;
    if (taken == here) continue;
    if (formation.wants_room()) {
      EXPECT_TRUE(formation.close_next());
    } else if (formation.closed() != 0) {
      runs.emit_next(formation, record_bytes);
    } else {
      ADD_FAILURE() << "it waits for what was closed, and nothing was";
      return runs;
    }
  }
  for (; formation.records() != 0; emit()) {
    if (!formation.close_next()) runs.emit_next(formation, record_bytes);
  }
  formation.end();
  while (formation.await_closed()) runs.emit_next(formation, record_bytes);
  EXPECT_FALSE(runs.is_open);
  return runs;
}

// Each run is in order, and all of them one behind the other, sorted by a stable sort, are the
// input sorted by one: so equal records are in the order of the input, from run to run as well.
void expect_stable_runs(const RecordOrder& order, const RecordList& list, const Runs& runs) {
  RecordList all{list.record_bytes, {}};
  for (const RecordList& run : runs.lists) {
    ASSERT_TRUE(run.bytes == stably_sorted(order, run).bytes);
    all.bytes.insert(all.bytes.end(), run.bytes.begin(), run.bytes.end());
  }
  ASSERT_TRUE(stably_sorted(order, all).bytes == stably_sorted(order, list).bytes);
}

TEST(RunFormation, RunsAreStable) {
  auto random = test::test_random();
  std::size_t runs_of_all = 0, falling_runs = 0;
  test::Turns turns(random, 2);
  for (const std::size_t record_bytes : {1u, 8u, 16u, 31u, 100u, 1000u}) {
    for (const Shape shape : test::kShapes) {
      for (const unsigned threads : {1U, 2U, 5U}) {
        if (turns.leave_out()) continue;
        const std::size_t blocks = 8 + random() % 50;
        const std::size_t count = std::min<std::size_t>(5 * blocks * kBlock / record_bytes, 12'000);
        const RecordList list = test::make_records(shape, record_bytes, count, random);
        // Random orders let few runs fall: most of reversed records do by this one.
        const bool falls = shape == Shape::kReversed;
        const FormatOrder order(falls ? RecordFormat(record_bytes, {})
                                      : test::random_format(record_bytes, random));
        SCOPED_TRACE(to_string(order.format()) + ", shape " +
                     std::to_string(static_cast<int>(shape)) + ", blocks " +
                     std::to_string(blocks) + ", threads " + std::to_string(threads));
        const Runs runs = form_runs(
            order, list, blocks,
            {.buckets = 1 + static_cast<unsigned>(random() % 24),
             .scratch_bytes = least_scratch(blocks, record_bytes) + (random() % (1 << 16)),
             .emits_beside = threads > 1,
             .threads = threads,
             .may_fall = falls || random() % 4 != 0,
             .most_run_bytes = blocks * kBlock * (1 + random() % 8)},
            random);
        ASSERT_NO_FATAL_FAILURE(expect_stable_runs(order, list, runs));
        runs_of_all += runs.lists.size();
        falling_runs += runs.falling;
      }
    }
  }
  EXPECT_GT(runs_of_all, 50u);
  EXPECT_GT(falling_runs, 0u);
}

// Where the leading bits neither decide nor are whole splitters kept, what has the bits of the
// least record of a bucket that was closed belongs to the next run of a run that falls.
TEST(RunFormation, EqualBitsOfRunsThatFall) {
  auto random = test::test_random();
  constexpr std::size_t kBytes = 16, kBlocks = 30, kCount = 6 * kBlocks * kBlock / kBytes;
  const FormatOrder order(RecordFormat(kBytes, {{0, 9, {}, false}}));
  test::Turns turns(random, 2);
  for (const std::size_t equal : {20U, 1000U}) {
    RecordList list{kBytes, {}};
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::uint64_t words[] = {__builtin_bswap64(kCount - i / equal), random() % 4 + i * 256};
      const auto* const record = reinterpret_cast<const std::byte*>(words);
      list.bytes.insert(list.bytes.end(), record, record + kBytes);
    }
    for (const unsigned buckets : {1U, 2U, 6U}) {
      if (turns.leave_out()) continue;
      const RunFormationOptions options = {
          .buckets = buckets, .scratch_bytes = least_scratch(kBlocks, kBytes), .may_fall = true};
      const Runs runs = form_runs(order, list, kBlocks, options, random);
      EXPECT_GT(runs.falling, 0U);
      ASSERT_NO_FATAL_FAILURE(expect_stable_runs(order, list, runs));
    }
  }
}

// Records that come while a run is emitted join it where its buckets are still open (SPAA paper,
// section 2.1): runs are twice as long as what the buckets have. The first one is shorter, and so
// are the last two.
TEST(RunFormation, RandomRecordsMakeRunsOfTwiceTheMemory) {
  auto random = test::test_random();
  constexpr std::size_t kBlocks = 200;
  test::Turns turns(random, 4);
  for (const std::size_t record_bytes : {8u, 16u, 100u}) {
    for (const unsigned threads : {1U, 2U, 4U}) {
      if (turns.leave_out()) continue;
      SCOPED_TRACE(std::to_string(record_bytes) + " bytes, threads " + std::to_string(threads));
      const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
      const RunFormationOptions options = {.buckets = 32,
                                           .scratch_bytes = std::size_t{1} << 19,
                                           .emits_beside = threads > 1,
                                           .threads = threads,
                                           .may_fall = true};
      const std::size_t memory =
          (kBlocks - options.most_open() / 2 - options.blocks_on_their_way(kBlocks)) * kBlock;
      const RecordList list =
          test::make_records(Shape::kRandom, record_bytes, 14 * memory / record_bytes, random);
      const Runs runs = form_runs(order, list, kBlocks, options, random);
      ASSERT_GE(runs.lists.size(), 6u);
      const std::size_t between = runs.lists.size() - 3;
      std::size_t bytes = 0;
      for (std::size_t i = 1; i <= between; ++i) bytes += runs.lists[i].bytes.size();
      EXPECT_GE(bytes, between * 2 * memory * 9 / 10);
      EXPECT_LE(bytes, between * 2 * memory * 11 / 10);
    }
  }
}

// What comes is never less than what the last range had.
TEST(RunFormation, AscendingRecordsMakeOneRun) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {8u, 16u, 100u}) {
    for (const Shape shape : {Shape::kSorted, Shape::kEqual}) {
      for (const unsigned threads : {1U, 2U}) {
        SCOPED_TRACE(std::to_string(record_bytes) + " bytes, shape " +
                     std::to_string(static_cast<int>(shape)) + ", threads " +
                     std::to_string(threads));
        const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
        const RecordList list =
            test::make_records(shape, record_bytes, 2'000'000 / record_bytes, random);
        const Runs runs = form_runs(order, list, 40,
                                    {.buckets = 8,
                                     .scratch_bytes = std::size_t{1} << 17,
                                     .emits_beside = threads > 1,
                                     .threads = threads},
                                    random);
        EXPECT_EQ(runs.lists.size(), 1u);
        ASSERT_NO_FATAL_FAILURE(expect_stable_runs(order, list, runs));
      }
    }
  }
}

// Records of 8 bytes whose keys are `value(i)`, and what else they have to make.
RecordList list_of(std::size_t count, const std::function<std::uint64_t(std::size_t)>& value) {
  RecordList list{8, std::vector<std::byte>(count * 8)};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = __builtin_bswap64(value(i));
    std::memcpy(&list.bytes[i * 8], &bytes, 8);
  }
  return list;
}

// Input that is nearly sorted makes runs as long as its order allows; none makes more runs than it
// is as long as the memory.
struct OrderCase {
  std::string name;
  std::size_t most_runs;
  std::function<std::uint64_t(std::size_t)> value;
};

// The cases, and those of numbers that differ from below and from above.
std::vector<OrderCase> from_both_sides(std::vector<OrderCase> cases) {
  for (std::size_t i = 0, count = cases.size(); i < count; ++i) {
    const OrderCase one = cases[i];
    if (one.name == "all equal") continue;
    cases.push_back({one.name + ", from above", one.most_runs,
                     [value = one.value](std::size_t i) { return ~std::uint64_t{0} - value(i); }});
  }
  return cases;
}

TEST(RunFormation, RunsAreAsLongAsTheOrderAllows) {
  auto random = test::test_random();
  constexpr std::size_t kCount = 250'000, kBlocks = 60;
  constexpr std::size_t kInMemory = kBlocks * kBlock / 8;
  constexpr std::size_t kStep = 1000;
  const auto displaced = [&](std::size_t by) { return (random() % (2 * by * kStep)); };
  std::vector<OrderCase> cases = from_both_sides({
      {"displaced by a sixth of the memory", 1,
       [&](std::size_t i) { return i * kStep + displaced(kInMemory / 6); }},
      {"one in hundred displaced", 1,
       [&](std::size_t i) {
         return i * kStep +
                (random() % 100 == 0 ? displaced(kInMemory / 8) : kInMemory / 8 * kStep);
       }},
      {"a tail above", 1,
       [&](std::size_t i) {
         return i < kCount / 10 * 9 ? i * kStep : kCount * kStep + random() % kStep;
       }},
      {"four sorted files", 5, [&](std::size_t i) { return i % (kCount / 4) * kStep; }},
      {"sawtooth", kCount / kInMemory + 2,
       [&](std::size_t i) { return i % (kInMemory / 8) * kStep; }},
      {"sorted", 1, [&](std::size_t i) { return i * kStep; }},
      {"all equal", 1, [&](std::size_t) { return 7; }},
      {"up and down by the memory", kCount / kInMemory + 2,
       [&](std::size_t i) {
         const std::size_t half = i % (2 * kInMemory);
         return std::min(half, 2 * kInMemory - half) * kStep;
       }},
      {"up and down by two thirds of the memory", kCount / kInMemory + 2,
       [&](std::size_t i) {
         const std::size_t half = i % (kInMemory * 4 / 3);
         return std::min(half, kInMemory * 4 / 3 - half) * kStep;
       }},
      {"two ways at once", kCount / kInMemory + 2,
       [&](std::size_t i) { return (i % 2 == 0 ? kCount + i : kCount - i) * kStep; }},
      {"the greatest and the least in turn", kCount / kInMemory + 2,
       [&](std::size_t i) { return i / kInMemory % 2 == 0 ? random() : random() >> 32; }},
  });
  // What comes in the middle of the other way makes a run more.
  cases.push_back(
      {"organ pipe", 3, [&](std::size_t i) { return std::min(i, kCount - i) * kStep; }});
  test::Turns turns(random, 3);
  const FormatOrder order(RecordFormat(8, {{0, 8, {}, false}}));
  for (const OrderCase& one : cases) {
    const RecordList list = list_of(kCount, one.value);
    for (const unsigned threads : {1U, 2U}) {
      if (turns.leave_out()) continue;
      SCOPED_TRACE(std::string(one.name) + ", threads " + std::to_string(threads));
      const Runs runs = form_runs(order, list, kBlocks,
                                  {.buckets = 14,
                                   .scratch_bytes = std::size_t{1} << 18,
                                   .emits_beside = threads > 1,
                                   .threads = threads,
                                   .may_fall = true},
                                  random);
      EXPECT_LE(runs.lists.size(), one.most_runs);
      ASSERT_NO_FATAL_FAILURE(expect_stable_runs(order, list, runs));
    }
  }
}

// The most that a plan keeps in memory fits there, in whatever order it comes.
TEST(RunFormation, WhatIsPlannedForTheMemoryFits) {
  auto random = test::test_random();
  const FormatOrder order(RecordFormat(8, {{0, 8, {}, false}}));
  for (const std::uint64_t memory_bytes : {2U << 20, 10U << 20, 16U << 20}) {
    RecordPlan plan;
    const auto is_planned = [&](std::uint64_t count) {
      SortPlanRequest request;
      request.bytes = count * 8;
      request.record_bytes = 8;
      request.memory_bytes = memory_bytes;
      request.block_bytes = kBlock;
      plan = plan_sort(request);
      return plan.in_memory();
    };
    std::size_t most = 0;
    for (std::size_t step = memory_bytes / 8; step > 0; step /= 2) {
      if (is_planned(most + step)) most += step;
    }
    ASSERT_TRUE(is_planned(most));
    const std::function<std::uint64_t(std::size_t)> values[] = {
        [](std::size_t i) { return i; }, [&](std::size_t i) { return most - i; },
        [&](std::size_t) { return random(); },
        [&](std::size_t i) { return i * 64 + random() % (most * 4); }};
    for (const auto& value : values) {
      const RecordList list = list_of(most, value);
      Memory memory(plan.bucket_blocks);
      std::optional<RunFormation> runs;
      make_run_formation(runs, order, memory.streams, plan.formation);
      std::size_t pushed = 0;
      for (std::size_t taken = 1; taken != 0 && pushed < most; pushed += taken) {
        guarded([&] {
          taken = runs->push(&list.bytes[pushed * 8], most - pushed);
        }).throw_if_failed();
      }
      EXPECT_EQ(pushed, most) << memory_bytes << " bytes, order " << &value - values;
    }
  }
}

void expect_the_same_at_every_pace(const RecordOrder& order, const RecordList& list,
                                   std::size_t blocks, unsigned buckets, std::mt19937_64& random,
                                   std::size_t* runs_of_all) {
  SCOPED_TRACE("blocks " + std::to_string(blocks) + ", buckets " + std::to_string(buckets));
  const RunFormationOptions options = {.buckets = buckets,
                                       .scratch_bytes = std::size_t{1} << 18,
                                       .emits_beside = true,
                                       .threads = 2,
                                       .may_fall = true};
  const Runs at_once = form_runs_at(1, order, list, blocks, options, random);
  ASSERT_NO_FATAL_FAILURE(expect_stable_runs(order, list, at_once));
  *runs_of_all += at_once.lists.size();
  for (const unsigned pace : {0U, 3U}) {
    const Runs runs = form_runs_at(pace, order, list, blocks, options, random);
    ASSERT_EQ(runs.lists.size(), at_once.lists.size()) << "pace " << pace;
    for (std::size_t i = 0; i < runs.lists.size(); ++i) {
      ASSERT_TRUE(runs.lists[i].bytes == at_once.lists[i].bytes) << "pace " << pace;
    }
  }
}

// A slow thread that emits makes pushing wait, and no other runs.
TEST(RunFormation, RunsDoNotDependOnThePaceOfWhoEmits) {
  auto random = test::test_random();
  std::size_t runs_of_all = 0;
  for (const std::size_t record_bytes : {8u, 16u, 100u}) {
    const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
    for (const Shape shape : test::kShapes) {
      const std::size_t blocks = 8 + random() % 50;
      RecordList list =
          test::make_records(shape, record_bytes, 4 * blocks * kBlock / record_bytes, random);
      // Some that come in order are displaced.
      for (std::size_t i = 0; shape == Shape::kSorted && i + 2000 < list.count(); ++i) {
        if (random() % 8 != 0) continue;
        std::byte* const here = list.bytes.data() + i * record_bytes;
        std::swap_ranges(here, here + record_bytes, here + random() % 2000 * record_bytes);
      }
      SCOPED_TRACE(std::to_string(record_bytes) + " bytes, shape " +
                   std::to_string(static_cast<int>(shape)));
      const unsigned buckets = 1 + static_cast<unsigned>(random() % 20);
      ASSERT_NO_FATAL_FAILURE(
          expect_the_same_at_every_pace(order, list, blocks, buckets, random, &runs_of_all));
    }
  }
  EXPECT_GT(runs_of_all, 50u);
  // Ranges are divided by moving records, for which there may be no room yet.
  const FormatOrder order(RecordFormat(8, {{0, 8, {}, false}}));
  const RecordList displaced = list_of(250'000, [&](std::size_t i) {
    return i * 1000 + random() % (2 * 60 * kBlock / 8 / 6 * 1000);
  });
  ASSERT_NO_FATAL_FAILURE(
      expect_the_same_at_every_pace(order, displaced, 60, 14, random, &runs_of_all));
}

// From five blocks on, what is nearly in order makes one run.
TEST(RunFormation, FewBlocksMakeOneRunOfWhatIsNearlyInOrder) {
  auto random = test::test_random();
  test::Turns turns(random, 3);
  for (const std::size_t record_bytes : {8u, 100u}) {
    const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
    for (const std::size_t blocks : {5u, 7u, 8u, 13u, 20u, 31u}) {
      RecordList list = test::make_records(Shape::kSorted, record_bytes,
                                           6 * blocks * kBlock / record_bytes, random);
      for (const std::size_t group : {1u, 20u}) {
        for (std::size_t i = 0; i + group <= list.count(); i += group) {
          for (std::size_t low = i, high = i + group - 1; low < high; ++low, --high) {
            std::byte* const here = list.bytes.data() + low * record_bytes;
            std::swap_ranges(here, here + record_bytes, list.bytes.data() + high * record_bytes);
          }
        }
        for (const unsigned buckets : {1U, 2U, 3U, 8U}) {
          for (const bool emits_beside : {false, true}) {
            if (turns.leave_out()) continue;
            SCOPED_TRACE(std::to_string(record_bytes) + " bytes in groups of " +
                         std::to_string(group) + ", blocks " + std::to_string(blocks) +
                         ", buckets " + std::to_string(buckets) + (emits_beside ? ", beside" : ""));
            const RunFormationOptions options = {.buckets = buckets,
                                                 .scratch_bytes = std::size_t{1} << 17,
                                                 .emits_beside = emits_beside};
            const Runs runs = emits_beside ? form_runs_at(2, order, list, blocks, options, random)
                                           : form_runs(order, list, blocks, options, random);
            EXPECT_EQ(runs.lists.size(), 1u);
            ASSERT_NO_FATAL_FAILURE(expect_stable_runs(order, list, runs));
          }
        }
      }
    }
  }
}

// However little memory there is, runs of random records are as long as it, but for a tenth. The
// records are always the same: of others the runs may be a little shorter by chance.
TEST(RunFormation, FewBlocksMakeNoShortRuns) {
  constexpr std::size_t kTimes = 20;
  std::mt19937_64 random(1);
  for (const std::size_t blocks : {4u, 5u, 6u, 7u, 9u, 12u, 16u}) {
    std::size_t runs = 0, sorts = 0;
    for (const std::size_t record_bytes : {8u, 36u}) {
      const FormatOrder order(RecordFormat(record_bytes, {{0, 6, {}, false}}));
      const RecordList list = test::make_records(Shape::kRandom, record_bytes,
                                                 kTimes * blocks * kBlock / record_bytes, random);
      for (const unsigned buckets : {2U, 3U}) {
        ++sorts;
        const RunFormationOptions options = {.buckets = buckets,
                                             .scratch_bytes = std::size_t{1} << 17};
        runs += form_runs(order, list, blocks, options, random).lists.size();
      }
    }
    EXPECT_LE(runs, sorts * kTimes * 11 / 10) << "blocks " << blocks;
  }
}

// Where another thread emits, the only block is not kept for what is on its way; and what has no
// records closes nothing.
TEST(RunFormation, OneBlockIsEmittedBeside) {
  auto random = test::test_random();
  const FormatOrder order(RecordFormat(8, {{0, 6, {}, false}}));
  const RecordList list = test::make_records(Shape::kRandom, 8, 5 * kBlock / 8, random);
  Memory memory(1);
  RunFormation runs(order, memory.streams,
                    {.buckets = 2, .scratch_bytes = std::size_t{1} << 17, .emits_beside = true});
  EXPECT_FALSE(runs.close_next());
  std::size_t emitted = 0;
  for (std::size_t pushed = 0; pushed < list.count();) {
    std::size_t taken = 0;
    guarded([&] { taken = runs.push(list.at(pushed), list.count() - pushed); }).throw_if_failed();
    pushed += taken;
    if (taken != 0 && pushed < list.count()) continue;
    ASSERT_TRUE(runs.close_next());
    RecordCollector out(8);
    guarded([&] { runs.emit_next(out); }).throw_if_failed();
    emitted += out.list.count();
  }
  EXPECT_EQ(emitted, list.count());
}

// Of several readers; 0: they push all.
int error_of_push(RunFormation& runs, const std::byte* records, std::size_t count) {
  return test::error_of(
      [&] { guarded([&] { runs.push(records, count, Readers::kSeveral); }).throw_if_failed(); });
}

void expect_full_runs(std::size_t least, const RecordOrder& order, const RecordList& list,
                      std::size_t blocks, const RunFormationOptions& options,
                      std::mt19937_64& random) {
  std::size_t full_runs = 0;
  ASSERT_NO_FATAL_FAILURE(expect_runs(order, list, blocks, options, 7000, random, &full_runs));
  EXPECT_GE(full_runs, least);
}

TEST_OF_ONE_THREAD(RunFormation, ByComparator) {
  auto random = test::test_random();
  using Pair = test::KeyAndValue;
  const auto by_low_bits = [](const Pair& a, const Pair& b) { return a.key % 999 < b.key % 999; };
  const detail::ComparatorOrder<Pair, decltype(by_low_bits)> order(by_low_bits);
  const RecordList list = test::make_records(Shape::kRandom, 16, 50000, random);
  for (const std::size_t scratch : {least_scratch(24, 16), std::size_t{1} << 20}) {
    expect_full_runs(1, order, list, 24, {.buckets = 6, .scratch_bytes = scratch}, random);
  }
}

// Leading bits that hardly tell records apart: whole records split the buckets, and are kept at the
// end of a scratch that sorting uses to the last byte.
TEST_OF_ONE_THREAD(RunFormation, SplitByWholeRecords) {
  auto random = test::test_random();
  const FormatOrder order(RecordFormat(16));
  const RecordList list = test::make_records(Shape::kFewValues, 16, 250000, random);
  const std::size_t least = least_scratch(100, 16);
  for (const std::size_t scratch : {least, least + 27 * 16, std::size_t{1} << 22}) {
    expect_full_runs(2, order, list, 100, {.buckets = 25, .scratch_bytes = scratch}, random);
  }
}

// The pool keeps nothing of a run that is never emitted, nor of one whose output fails.
TEST_OF_ONE_THREAD(RunFormation, GivesBackWhatIsNotEmitted) {
  auto random = test::test_random();
  Memory memory(8);
  const FormatOrder order(RecordFormat(8));
  const RecordList list = test::make_records(Shape::kRandom, 8, 9000, random);
  {
    RunFormation runs(order, memory.streams, {.scratch_bytes = 1 << 16});
    EXPECT_EQ(runs.push(list.at(0), 9000), 9000u);
    EXPECT_GT(memory.streams.blocks_in_use(), 0u);
  }
  EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
  {
    RunFormation runs(order, memory.streams, {.scratch_bytes = 1 << 16});
    EXPECT_EQ(runs.push(list.at(0), 9000), 9000u);
    test::WatchedOutput out(8, 1, [](std::size_t done) {
      if (done == 5000 * 8) throw Error(EIO, "the test says so");
    });
    EXPECT_THROW(runs.emit(out), Error);
  }
  EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
}

// Words and pairs, whose buckets are sorted in place by several threads; run for run the same as
// with one. A bucket of half of the records is too large for its part of the scratch.
TEST(RunFormation, WithSeveralThreads) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {8u, 16u}) {
    for (const Shape shape : {Shape::kRandom, Shape::kFewValues, Shape::kSorted}) {
      const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
      const RecordList list = test::make_records(shape, record_bytes, 150'000, random);
      const std::size_t blocks = 80'000 * record_bytes / kBlock;
      for (const unsigned threads : {1U, 2U, 7U}) {
        SCOPED_TRACE(to_string(order.format()) + ", shape " +
                     std::to_string(static_cast<int>(shape)) + ", threads " +
                     std::to_string(threads));
        std::size_t full_runs = 0;
        ASSERT_NO_FATAL_FAILURE(
            expect_runs(order, list, blocks,
                        {.buckets = 8, .scratch_bytes = std::size_t{2} << 20, .threads = threads},
                        20'000, random, &full_runs));
        EXPECT_GE(full_runs, 1u);
      }
    }
  }
}

// An output that fails while threads sort the next buckets: by an exception, and by a jump out of a
// fault.
TEST(RunFormation, FailsWhileOthersSort) {
  auto random = test::test_random();
  const FormatOrder order(RecordFormat(8, {{0, 8, {}, false}}));
  const RecordList list = test::make_records(Shape::kRandom, 8, 200'000, random);
  for (const unsigned threads : {2U, 7U}) {
    Memory memory(120);
    {
      RunFormation runs(order, memory.streams,
                        {.buckets = 16, .scratch_bytes = 1 << 20, .threads = threads});
      ASSERT_EQ(runs.push(list.at(0), list.count()), list.count());
      test::WatchedOutput out(8, 1000, [](std::size_t done) {
        if (done > 800'000) throw Error(EIO, "the test says so");
      });
      EXPECT_THROW(runs.emit(out), Error);
    }
    EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
    {
      RunFormation runs(order, memory.streams,
                        {.buckets = 16, .scratch_bytes = 1 << 20, .threads = threads});
      ASSERT_EQ(runs.push(list.at(0), list.count()), list.count());
      BlockPool pool({.pool_bytes = 2 * kBlock, .block_bytes = kBlock});
      const auto script = std::make_shared<test::SinkScript>();
      script->data.resize(list.bytes.size() + kBlock);
      script->fail_complete_at = 30;
      OutputStream<std::byte> stream(std::make_unique<test::MemorySink>(pool, 2, script), {});
      PointerOutput out(stream.data(), 8, kBlock);
      EXPECT_THROW(guarded([&] { runs.emit(out); }).throw_if_failed(), Error);
    }
    EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
  }
}

// A stream has one block in memory: records that are read at once must not lie in two of them,
// wherever a run has ended.
TEST_OF_ONE_THREAD(RunFormation, OfAStreamOfOneBlock) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {8u, 16u, 100u}) {
    const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
    const RecordList list =
        test::make_records(Shape::kRandom, record_bytes, 300'000 + random() % 1000, random);
    const std::size_t blocks = 60 + random() % 20;
    Memory memory(blocks);
    RunFormation runs(order, memory.streams, {.buckets = 8, .scratch_bytes = std::size_t{1} << 20});
    const std::size_t window = record_bytes == 100 ? 2 : 1;
    BlockPool pool({.pool_bytes = (window + 1) * kBlock, .block_bytes = kBlock});
    InputStream<std::byte> stream(
        std::make_unique<test::MemorySource>(pool, window + 1, list.bytes),
        {.comeback_blocks = window - 1});
    std::size_t first = 0, pushed = 0;
    while (pushed < list.count()) {
      guarded([&] {
        pushed += runs.push(stream.data() + pushed * record_bytes, list.count() - pushed);
      }).throw_if_failed();
      ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, first, pushed - first));
      first = pushed;
    }
  }
}

// The large blocks of a stream that holds one of them, or two where records straddle them, are
// partitioned by several threads: buckets are the same, and a run still ends when memory does.
TEST(RunFormation, PartitionedBySeveralThreads) {
  constexpr std::size_t kLarge = std::size_t{256} << 10;
  auto random = test::test_random();
  for (const std::size_t record_bytes : {8u, 16u, 24u, 31u, 100u}) {
    for (const Shape shape :
         {Shape::kRandom, Shape::kFewValues, Shape::kSkewed, Shape::kDrifting}) {
      const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
      const std::size_t blocks = 17 + random() % 8;
      const RecordList list = test::make_records(
          shape, record_bytes, 3 * blocks * kLarge / 2 / record_bytes + random() % 1000, random);
      for (const unsigned threads : test::some_of({1U, 2U, 7U}, 1, random)) {
        SCOPED_TRACE(to_string(order.format()) + ", shape " +
                     std::to_string(static_cast<int>(shape)) + ", blocks " +
                     std::to_string(blocks) + ", threads " + std::to_string(threads));
        Memory memory(blocks, kLarge);
        const std::size_t batch = 1 + random() % 3;
        RunFormation runs(order, memory.streams,
                          {.buckets = 4,
                           .scratch_bytes = std::size_t{1} << 20,
                           .partition_threads = threads,
                           .partition_beside = static_cast<unsigned>(random() % (threads + 1)),
                           .batch_blocks = batch});
        const std::size_t window = (kLarge % record_bytes == 0 ? 1 : 2) + batch - 1;
        BlockPool pool({.pool_bytes = (window + 1) * kLarge, .block_bytes = kLarge});
        InputStream<std::byte> stream(
            std::make_unique<test::MemorySource>(pool, window + 1, list.bytes),
            {.comeback_blocks = window - 1});
        std::size_t first = 0, pushed = 0;
        while (pushed < list.count()) {
          const std::size_t here = std::min<std::size_t>(
              list.count() - pushed, 1 + random() % (5 * kLarge / record_bytes));
          std::size_t taken = 0;
          guarded([&] {
            taken = runs.push(stream.data() + pushed * record_bytes, here, Readers::kSeveral);
          }).throw_if_failed();
          pushed += taken;
          ASSERT_EQ(runs.records(), pushed - first);
          if (taken == here) continue;
          // Room for a part of a block may have been made in vain.
          ASSERT_EQ(memory.streams.blocks_in_use(), blocks);
          ASSERT_GT((pushed - first) * record_bytes, (blocks - runs.buckets() - 1) * kLarge);
          ASSERT_NO_FATAL_FAILURE(
              expect_run(runs, order, memory.streams, list, first, pushed - first));
          first = pushed;
        }
        ASSERT_GT(first, 0u);
        ASSERT_NO_FATAL_FAILURE(
            expect_run(runs, order, memory.streams, list, first, pushed - first));
      }
    }
  }
}

// Who pushes puts the first records to their buckets alone. None of those that count the others
// goes on before all have begun, so each has a stripe, as long as the others'.
TEST(RunFormation, EachPartitionerTakesAnEqualStripe) {
  constexpr std::size_t kBatch = std::size_t{256} << 10;
  auto random = test::test_random();
  std::vector<test::KeyAndValue> records(29'000);
  for (std::size_t i = 0; i < records.size(); ++i) records[i] = {random(), i};
  const auto* const bytes = reinterpret_cast<const std::byte*>(records.data());
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    test::TeamCounts* counts = nullptr;
    const auto seen = std::make_unique<std::atomic<bool>[]>(records.size());
    const auto key = [&](const test::KeyAndValue& record) {
      if (counts != nullptr && !seen[record.value].exchange(true)) counts->add(1);
      return record.key;
    };
    const auto order = detail::order_of_type<test::KeyAndValue>(ByKey(key));
    Memory memory(16, kBatch);
    RunFormation runs(*order, memory.streams,
                      {.buckets = 4,
                       .scratch_bytes = std::size_t{1} << 20,
                       .partition_threads = threads,
                       .batch_blocks = 8});
    const std::size_t first = 20'000;
    ASSERT_EQ(runs.push(bytes, first), first);
    test::TeamCounts stripes(threads);
    counts = &stripes;
    const std::size_t more = records.size() - first;
    ASSERT_EQ(runs.push(bytes + first * sizeof records[0], more, Readers::kSeveral), more);
    counts = nullptr;
    ASSERT_EQ(stripes.of_threads().size(), threads);
    for (const std::uint64_t taken : stripes.of_threads()) {
      EXPECT_LE(taken, more / threads + 1);
      EXPECT_GE(taken, more / threads);
    }
    RecordCollector out(sizeof records[0]);
    runs.emit(out);
    EXPECT_EQ(out.list.count(), records.size());
  }
}

// Notes how many records a thread takes at a time when it partitions with others.
class NotedStripes final : public detail::OrderBy<FormatRules> {
 public:
  using OrderBy::OrderBy;

  void count_for_buckets(const std::byte* records, std::size_t count,
                         const detail::BucketSplitters& splitters,
                         std::span<std::uint32_t> counts) const override {
    OrderBy::count_for_buckets(records, count, splitters, counts);
    const std::lock_guard lock(mutex_);
    stripes_.push_back(count);
  }
  std::vector<std::size_t> take() const { return std::exchange(stripes_, {}); }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::size_t> stripes_;
};

// While a bucket is closed and not yet emitted, fewer partition; one of them alone counts nothing.
TEST(RunFormation, FewerPartitionBesideWhatIsEmitted) {
  constexpr std::size_t kBatch = std::size_t{256} << 10;
  const NotedStripes order(FormatRules(RecordFormat(8, {{0, 8, {}, false}})));
  auto random = test::test_random();
  for (const unsigned threads : {2U, 7U, 16U, 128U}) {
    SCOPED_TRACE(threads);
    const unsigned beside = std::max(threads / 2, 1U);
    Memory memory(32, kBatch);
    RunFormation runs(order, memory.streams,
                      {.buckets = 4,
                       .scratch_bytes = std::size_t{1} << 20,
                       .partition_threads = threads,
                       .partition_beside = beside,
                       .batch_blocks = 8});
    std::vector<std::uint64_t> values(60'000);
    for (std::uint64_t& value : values) value = random();
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    const auto stripes_of_push = [&] {
      order.take();
      EXPECT_EQ(runs.push(bytes, values.size(), Readers::kSeveral), values.size());
      return order.take().size();
    };
    stripes_of_push();  // the sample among them
    EXPECT_EQ(stripes_of_push(), threads);
    ASSERT_TRUE(runs.close_next());
    EXPECT_EQ(stripes_of_push(), beside == 1 ? 0 : beside);
    RecordCollector out(8);
    runs.emit_next(out);
    EXPECT_EQ(stripes_of_push(), threads);
  }
}

// The more threads, the more ranges, and the longer a batch: both in memory that grows with the
// threads, and not with their square.
TEST(RunFormation, StripesAreWholeInMemoryThatGrowsWithTheThreads) {
  constexpr std::uint64_t kOfThread = std::uint64_t{10} << 20, kStripe = std::uint64_t{256} << 10;
  const NotedStripes order(FormatRules(RecordFormat(8, {{0, 8, {}, false}})));
  auto random = test::test_random();
  for (const unsigned threads : {4U, 7U, 16U, 64U, 128U}) {
    if (test::kShadowMemory && threads > 16) continue;  // of each bucket there is address space
    SCOPED_TRACE(threads);
    SortPlanRequest request;
    request.record_bytes = 8;
    request.memory_bytes = threads * kOfThread;
    request.bytes = 16 * request.memory_bytes;
    request.threads = threads;
    request.scratch_per_record = 8;
    request.most_buckets = std::max(request.most_buckets, buckets_for(threads));
    const RecordPlan plan = plan_sort(request);
    ASSERT_EQ(plan.formation.partition_threads, threads / 2);
    const std::size_t batch = plan.formation.batch_blocks * plan.block_bytes;
    ASSERT_GE(batch, threads / 2 * kStripe);
    const std::size_t count = batch / 8;
    std::vector<std::uint64_t> values(4 * count);
    for (std::uint64_t& value : values) value = random();
    Memory memory(plan.bucket_blocks, plan.block_bytes);
    RunFormationOptions options = plan.formation;
    options.may_fall = true;
    std::optional<RunFormation> runs;
    make_run_formation(runs, order, memory.streams, options);
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    const std::size_t behind = reinterpret_cast<std::uintptr_t>(bytes) % plan.block_bytes;
    const std::size_t first = count + (plan.block_bytes - behind) % plan.block_bytes / 8;
    ASSERT_EQ(runs->push(bytes, first), first);  // the sample among them
    order.take();
    for (std::size_t at = first; at < first + 2 * count; at += count) {
      ASSERT_EQ(runs->push(bytes + at * 8, count, Readers::kSeveral), count);
      EXPECT_EQ(order.take(), std::vector<std::size_t>(threads / 2, count / (threads / 2)));
    }
  }
}

// Records come to a bucket by stores through its pointer, and go by loads: at least one fault for
// each of its blocks, whatever the records, the pool and the number of threads; and one more where
// a bucket is passed on in its order.
class RunFormationFaults : public test::PlacingTest {};

void expect_faults(const RecordOrder& order, PoolKind kind, unsigned threads, bool in_order,
                   std::mt19937_64& random) {
  constexpr std::size_t kLarge = std::size_t{256} << 10;
  constexpr std::size_t kBlocks = 17;
  Memory memory(kBlocks, kLarge, kind);
  RunFormation runs(order, memory.streams,
                    {.buckets = 4,
                     // Where buckets are passed on in their order, the third part of it sorts all
                     // records, which may come to one bucket.
                     .scratch_bytes = std::size_t{in_order ? 24U : 6U} << 20,
                     .threads = threads,
                     .partition_threads = threads});
  const std::size_t record_bytes = order.record_bytes();
  const RecordList list =
      test::make_records(Shape::kRandom, record_bytes, kBlocks * kLarge / record_bytes + 1, random);
  const auto faults = [] { return FaultDispatcher::instance().statistics().served; };
  const std::uint64_t before = faults();
  const std::size_t taken = runs.push(list.at(0), list.count(), Readers::kSeveral);
  ASSERT_LT(taken, list.count());
  ASSERT_EQ(memory.streams.blocks_in_use(), kBlocks);
  // What was set aside for the last part of the records, in vain, is not stored to.
  const BlockPool::Statistics now = memory.pool.statistics();
  const std::size_t stored = now.placements - now.withdrawals;
  EXPECT_GE(stored * kLarge, taken * record_bytes);
  EXPECT_GE(faults() - before, stored);
  ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, 0, taken));
  EXPECT_GE(faults() - before, in_order ? 2 * stored : stored);
}

TEST_P(RunFormationFaults, ForEachBlockOfItsBuckets) {
  auto random = test::test_random();
  const auto by_low_bits = [](const test::KeyAndValue& a, const test::KeyAndValue& b) {
    return a.key % 999 < b.key % 999;
  };
  const detail::ComparatorOrder<test::KeyAndValue, decltype(by_low_bits)> compared(by_low_bits);
  const PoolKind kind = test::pool_kind(GetParam());
  for (const unsigned threads : {1U, 3U}) {
    for (const std::size_t record_bytes : {8u, 16u, 31u, 100u}) {
      SCOPED_TRACE(std::to_string(record_bytes) + ", threads " + std::to_string(threads));
      const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
      expect_faults(order, kind, threads, threads > 1 && record_bytes <= 16, random);
    }
    expect_faults(compared, kind, threads, false, random);
  }
}
INSTANTIATE_TEST_SUITE_P(Placings, RunFormationFaults, ::testing::ValuesIn(test::kAllPlacings),
                         test::NameOfPlacing());

// A block that the kernel does not place is the pusher's error, whichever thread stores to it.
TEST(RunFormation, FailsWhereAStoreDoes) {
  const test::FaultsBy signals(test::signal_engine());
  constexpr std::size_t kLarge = std::size_t{256} << 10;
  auto random = test::test_random();
  const FormatOrder order(RecordFormat(100, {{0, 10, {}, false}}));
  const RecordList list = test::make_records(Shape::kRandom, 100, 20'000, random);
  for (const unsigned threads : {1U, 3U}) {
    Memory memory(20, kLarge);
    {
      RunFormation runs(order, memory.streams,
                        {.buckets = 4, .scratch_bytes = 1 << 20, .partition_threads = threads});
      // When the sample is in its buckets, all threads store.
      const std::size_t first = list.count() / 8;
      ASSERT_EQ(runs.push(list.at(0), first), first);
      os::set_failure_hook(
          +[](os::MemoryCall call) noexcept { return call == os::MemoryCall::kMove ? ENOMEM : 0; });
      EXPECT_EQ(error_of_push(runs, list.at(first), list.count() - first), ENOMEM);
      os::set_failure_hook(nullptr);
    }
    EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
  }
}

// One move after the other, also where two ranges that have only buffered records become one.
TEST(RunFormation, FailsWhereRangesAreJoined) {
  const test::FaultsBy signals(test::signal_engine());
  auto random = test::test_random();
  constexpr unsigned kBuckets = 32;
  const FormatOrder order(RecordFormat(8, {{0, 8, {}, false}}));
  const RecordList list = list_of(260'000, [&](std::size_t i) {
    return i < 64 * kBuckets ? random() : ~std::uint64_t{0} - 300'000 + i;
  });
  static std::atomic<int> left;
  bool fails = true;
  int moves = 0;
  for (; fails; ++moves) {
    Memory memory(160);
    {
      RunFormation runs(order, memory.streams,
                        {.buckets = kBuckets, .scratch_bytes = std::size_t{1} << 18});
      left = moves;
      os::set_failure_hook(+[](os::MemoryCall call) noexcept {
        return call == os::MemoryCall::kMove && left.fetch_sub(1) == 0 ? ENOMEM : 0;
      });
      const int error = error_of_push(runs, list.at(0), list.count());
      os::set_failure_hook(nullptr);
      fails = left < 0;
      ASSERT_EQ(error, fails ? ENOMEM : 0) << "move " << moves;
    }
    ASSERT_EQ(memory.streams.blocks_in_use(), 0u) << "move " << moves;
  }
  EXPECT_GT(moves, 10);
}

// A read that fails is the pusher's error, whoever partitions.
TEST(RunFormation, FailsWhereTheInputDoes) {
  constexpr std::size_t kLarge = std::size_t{256} << 10;
  auto random = test::test_random();
  const FormatOrder order(RecordFormat(100, {{0, 10, {}, false}}));
  const RecordList list = test::make_records(Shape::kRandom, 100, 20'000, random);
  for (const unsigned threads : {1U, 3U}) {
    Memory memory(20, kLarge);
    {
      RunFormation runs(order, memory.streams,
                        {.buckets = 4, .scratch_bytes = 1 << 20, .partition_threads = threads});
      BlockPool pool({.pool_bytes = 3 * kLarge, .block_bytes = kLarge});
      const auto script = std::make_shared<test::SourceScript>();
      script->fail_at = 5;
      InputStream<std::byte> stream(
          std::make_unique<test::MemorySource>(pool, 3, list.bytes, script), {});
      EXPECT_EQ(error_of_push(runs, stream.data(), list.count()), EIO);
    }
    EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
  }
}

// Memory flows: when a bucket has been emitted, its blocks are in the pool again.
TEST_OF_ONE_THREAD(RunFormation, GivesBackBucketByBucket) {
  auto random = test::test_random();
  Memory memory(64);
  const FormatOrder order(RecordFormat(16));
  RunFormation runs(order, memory.streams, {.buckets = 16, .scratch_bytes = 1 << 18});
  // The first run is split by its sample, the second by the first.
  for (int run = 0; run < 2; ++run) {
    const RecordList list = test::make_records(Shape::kRandom, 16, 50000, random);
    ASSERT_EQ(runs.push(list.at(0), list.count()), list.count());
    const std::size_t in_use = memory.streams.blocks_in_use();
    std::size_t in_use_halfway = 0;
    test::WatchedOutput out(16, 1, [&](std::size_t done) {
      if (done == 25000 * 16) in_use_halfway = memory.streams.blocks_in_use();
    });
    runs.emit(out);
    EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
    EXPECT_LT(in_use_halfway, in_use * 3 / 4);
    EXPECT_GT(in_use_halfway, in_use / 4);
  }
}

// One key that the first run has not: all records are of one bucket, which cannot be divided. It is
// sorted where it is, and its blocks are given back one by one.
TEST(RunFormation, OneBucketGetsAll) {
  auto random = test::test_random();
  for (const unsigned threads : {1U, 2U}) {
    const std::size_t record_bytes = threads == 1 ? 16 : 8;
    // More than the scratch, and half of that is what the threads allocate.
    const std::size_t scratch = std::size_t{threads == 1 ? 13U : 30U} << 20;
    const std::size_t count = (scratch + (std::size_t{2} << 20)) / record_bytes;
    Memory memory(2 * count * record_bytes / kBlock);
    const FormatOrder order(
        RecordFormat(record_bytes, {{0, 8, parse_key_type("u64be", "key"), false}}));
    const std::size_t before = count / 8;
    RecordList list = test::make_records(Shape::kRandom, record_bytes, before + count, random);
    for (std::size_t i = 0; i < list.count(); ++i) {
      list.bytes[i * record_bytes] = std::byte{i < before ? std::uint8_t{1} : std::uint8_t{9}};
      if (i > before) std::memcpy(&list.bytes[i * record_bytes], list.at(before), 8);
    }
    RunFormation runs(order, memory.streams,
                      {.buckets = 16, .scratch_bytes = scratch, .threads = threads});
    ASSERT_EQ(runs.push(list.at(0), before), before);
    ASSERT_NO_FATAL_FAILURE(expect_run(runs, order, memory.streams, list, 0, before));
    ASSERT_EQ(runs.push(list.at(before), count), count);
    std::size_t in_use_halfway = 0;
    test::WatchedOutput out(record_bytes, 100, [&](std::size_t done) {
      if (done <= count * record_bytes / 2) in_use_halfway = memory.streams.blocks_in_use();
    });
    runs.emit(out);
    EXPECT_LE(in_use_halfway, count * record_bytes / kBlock / 2 + 2);
    EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
    ASSERT_TRUE(
        test::same_bytes(out.list.bytes, stably_sorted(order, part_of(list, before, count)).bytes));
  }
}

// What comes behind the first records is not sorted, nor is there much of it when splitters have
// been chosen among these: the second run has none but what the first let through.
TEST(RunFormation, SortsWhatIsWanted) {
  auto random = test::test_random();
  for (const unsigned threads : {1U, 2U}) {
    Memory memory(400);
    std::atomic<std::uint64_t> compared = 0;
    const auto less = [&compared](std::uint64_t a, std::uint64_t b) {
      compared.fetch_add(1, std::memory_order_relaxed);
      return a < b;
    };
    const detail::ComparatorOrder<std::uint64_t, decltype(less)> order(less);
    RunFormation runs(order, memory.streams, {.threads = threads});
    std::vector<std::uint64_t> numbers(100'000);
    for (const int shift : {0, 6}) {
      for (std::uint64_t& number : numbers) number = random() >> shift;
      const auto* const records = reinterpret_cast<const std::byte*>(numbers.data());
      ASSERT_EQ(runs.push(records, numbers.size()), numbers.size());
      RecordCollector out(8);
      SortedOutput first(order, false, numbers.size() >> 6, out);
      compared = 0;
      runs.emit(first.to(), &first);
      EXPECT_LT(compared.load(), 2 * numbers.size()) << shift;
      EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
      std::sort(numbers.begin(), numbers.end());
      ASSERT_EQ(out.list.count(), numbers.size() >> 6);
      EXPECT_EQ(std::memcmp(out.list.at(0), records, out.list.bytes.size()), 0);
    }
  }
}

// Of ascending records the last range becomes large, and again what is divided off: where all fit,
// that is left undone.
TEST(RunFormation, DividesNothingOfWhatFits) {
  std::vector<std::uint64_t> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::array<std::size_t, 2> compared{};
  for (const bool fits : {false, true}) {
    Memory memory(130);
    const auto less = [&](std::uint64_t a, std::uint64_t b) {
      ++compared[fits];
      return a < b;
    };
    const detail::ComparatorOrder<std::uint64_t, decltype(less)> order(less);
    RunFormation runs(order, memory.streams, {.fits = fits});
    const auto* const records = reinterpret_cast<const std::byte*>(numbers.data());
    ASSERT_EQ(runs.push(records, numbers.size()), numbers.size());
    const std::size_t in_pushing = compared[fits];
    RecordCollector out(8);
    runs.emit(out);
    compared[fits] = in_pushing;
    ASSERT_EQ(out.list.bytes.size(), numbers.size() * 8);
    EXPECT_EQ(std::memcmp(out.list.at(0), records, out.list.bytes.size()), 0);
  }
  EXPECT_LT(compared[true] + numbers.size() / 4, compared[false]);
}

TEST(RunFormation, SaysWhatIsWrong) {
  Memory memory(8);
  const auto error_of = [&](std::size_t record_bytes, RunFormationOptions options) {
    const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
    return test::error_of([&] { RunFormation runs(order, memory.streams, options); });
  };
  const std::size_t least = least_scratch(8, 100);
  EXPECT_EQ(error_of(100, {.buckets = 4, .scratch_bytes = least}), 0);
  EXPECT_EQ(error_of(100, {.buckets = 4, .scratch_bytes = least - 1}), ENOMEM);
  EXPECT_EQ(error_of(100, {.buckets = 0, .scratch_bytes = least}), EINVAL);
  EXPECT_EQ(error_of(100, {.buckets = 4097, .scratch_bytes = least}), EINVAL);
  EXPECT_EQ(error_of(kBlock, {.buckets = 4, .scratch_bytes = least}), 0);
  EXPECT_EQ(error_of(kBlock + 1, {.buckets = 4, .scratch_bytes = least}), EINVAL);
  EXPECT_EQ(memory.streams.blocks_in_use(), 0u);
}

}  // namespace

}  // namespace vortex::run_formation_test
