// Runs that go on from arena to arena: how many come of inputs in different orders, and that the
// output is what std::stable_sort gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lines/job/line_plan.h"
#include "lines/job/line_runs.h"
#include "lines/memory/line_arena.h"
#include "lines/record/stored_record.h"
#include "sort/runs/sort_watch.h"
#include "study/fault_plan.h"
#include "tests/disk/test_disk.h"
#include "tests/lines/line_folder.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex::test::run_growth_test { namespace {

constexpr std::size_t kBlock = 16 << 10;
constexpr std::size_t kLineBytes = 40;
constexpr std::size_t kLines = 40'000;
constexpr std::uint64_t kTeeth = 2;

// In which order lines come.
enum class Arrival {
  kRandom,
  kSorted,
  kDisplaced,  // by less than an arena holds
  kDrifting,
  kOutliers,  // one in a hundred lies anywhere
  kAppended,  // nine tenths are sorted
  kTeeth,     // sorted inputs one behind the other, over the same range
  kAlternating,
};

// The key of line `i` of `lines`.
std::uint64_t key_of(Arrival arrival, std::uint64_t i, std::uint64_t lines,
                     std::mt19937_64& random) {
  switch (arrival) {
    case Arrival::kRandom:
      break;
    case Arrival::kSorted:
      return i;
    case Arrival::kDisplaced:
      return i / 1500 * 1500 + 1499 - i % 1500;
    case Arrival::kDrifting:
      return i + random() % 2000;
    case Arrival::kOutliers:
      return random() % 100 == 0 ? random() % lines : i;
    case Arrival::kAppended:
      return i < lines / 10 * 9 ? i : random() % lines;
    case Arrival::kTeeth:
      return i % (lines / kTeeth) * kTeeth;
    case Arrival::kAlternating:
      return i + (i % 2) * lines;
  }
  return random();
}

// Behind its key, or in front of the comma before that, is what tells it from others with its key.
std::string line_of(std::uint64_t key, std::size_t number, const LineOrder& order,
                    std::size_t bytes) {
  const std::uint64_t ascending = order.descending ? ~key : key;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4)
    digits += "0123456789abcdef"[ascending >> shift & 15];
  std::string rest = std::to_string(number);
  rest.insert(0, bytes - digits.size() - rest.size() - 1, '.');
  return order.keys ? rest + "," + digits : digits + "," + rest;
}

// In this order or, turned round, from the last to the first of their keys.
std::uint64_t key_of(Arrival arrival, bool falls, std::uint64_t i, std::uint64_t lines,
                     std::mt19937_64& random) {
  const std::uint64_t key = key_of(arrival, i, lines, random);
  return falls ? ~key : key;
}

Lines arriving(Arrival arrival, bool falls, std::size_t count, const LineOrder& order,
               std::mt19937_64& random) {
  Lines lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines.push_back(line_of(key_of(arrival, falls, i, count, random), i, order, kLineBytes));
  }
  return lines;
}

struct OrderCase {
  const char* name;
  LineOrder order;
  friend void PrintTo(const OrderCase& row, std::ostream* out) { *out << row.name; }
};

std::vector<OrderCase> order_cases() {
  const auto keys = std::make_shared<KeysBehindComma>();
  const auto shortened = std::make_shared<KeysBehindComma>(12);
  return {{"plain", {}},
          {"descending", {.descending = true}},
          {"stable", {.keys = keys, .ties = Ties::kInputOrder}},
          {"keys", {.keys = keys, .descending = true}},
          {"shortened", {.keys = shortened}},
          {"unique", {.keys = keys, .unique = true}}};
}

class RunGrowth : public LineFolder, public ::testing::WithParamInterface<OrderCase> {
 protected:
  RunGrowth() {
    options.order = GetParam().order;
    options.resources.block_bytes = kBlock;
  }
  std::uint64_t runs_of(Arrival arrival, bool falls, std::mt19937_64& random) {
    const Lines lines = arriving(arrival, falls, kLines, options.order, random);
    put_input(lines);
    return expect_output(sorted(lines, options.order)).runs;
  }
  // Those of as many lines in any order.
  std::uint64_t arenas() const {
    const std::uint64_t text = kLines * (kLineBytes + 1);
    const LinePlan plan = plan_lines(options.resources, text);
    const std::uint64_t of_line = kLineBytes + 1 + sizeof(IndexEntry) +
                                  (options.order.keys ? 1 + std::min<std::size_t>(16, 12) : 0);
    const std::uint64_t arena = plan.arena_bytes / (plan.threads > 1 ? 2 : 1);
    return (kLines * of_line + arena - 1) / arena;
  }
};
INSTANTIATE_TEST_SUITE_P(Orders, RunGrowth, ::testing::ValuesIn(order_cases()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(RunGrowth, OrderMakesRunsLonger) {
  auto random = test_random();
  const bool one_falls = random() % 2 == 0;
  for (const bool falls : {false, true}) {
    for (const unsigned threads : {1U, 2U}) {
      // One thread for those that rise and two for those that fall, or the other way round.
      if (!long_tests() && (threads == 1) != (falls == one_falls)) continue;
      SCOPED_TRACE(::testing::Message() << threads << " threads, falls: " << falls);
      options.resources.threads = threads;
      const std::uint64_t of_random = runs_of(Arrival::kRandom, falls, random);
      EXPECT_GE(of_random + 1, arenas());
      EXPECT_LE(of_random, arenas() + 1);
      for (const Arrival arrival : {Arrival::kSorted, Arrival::kDisplaced, Arrival::kDrifting}) {
        EXPECT_EQ(runs_of(arrival, falls, random), 1u) << static_cast<int>(arrival);
      }
      EXPECT_LE(runs_of(Arrival::kOutliers, falls, random), 2u);
      EXPECT_LE(runs_of(Arrival::kAppended, falls, random), 3u);
      EXPECT_EQ(runs_of(Arrival::kTeeth, falls, random), kTeeth);
      EXPECT_LE(runs_of(Arrival::kAlternating, falls, random), of_random);
    }
  }
}

// Of which more are wanted than the memory holds.
TEST_P(RunGrowth, OfTheFirst) {
  auto random = test_random();
  for (const Arrival arrival : {Arrival::kSorted, Arrival::kDisplaced, Arrival::kRandom}) {
    for (const bool falls : {false, true}) {
      options.resources.threads = 1 + random() % 2;
      options.resources.first_records = kLines / 8 * (5 + random() % 5);
      SCOPED_TRACE(::testing::Message() << options.resources.first_records << " of "
                                        << static_cast<int>(arrival) << ", falls: " << falls);
      Lines lines = arriving(arrival, falls, kLines, options.order, random);
      put_input(lines);
      lines = sorted(lines, options.order);
      lines.resize(std::min<std::size_t>(lines.size(), options.resources.first_records));
      const std::uint64_t runs = expect_output(lines).runs;
      if (arrival != Arrival::kRandom) {
        EXPECT_EQ(runs, 1u);
      }
    }
  }
}

// Its length is not known, and the memory is one arena first.
TEST_P(RunGrowth, OfRecordsThatArePushed) {
  auto random = test_random();
  for (const unsigned threads : {1, 2, 1, 2}) {
    options.resources.threads = threads;
    const bool falls = random() % 2 != 0;
    const Lines lines = arriving(Arrival::kDrifting, falls, kLines, options.order, random);
    LineSorter sorter(options.order, options.resources);
    EXPECT_EQ(pushed_through(sorter, lines), sorted(lines, options.order));
    EXPECT_EQ(sorter.counts().runs, 1u);
  }
}

// Stretches of any order, with lines of any length, of which some come several times.
TEST_P(RunGrowth, OrdersThatChange) {
  auto random = test_random();
  for (int round = 0; round < 3 && !HasFailure(); ++round) {
    Lines lines;
    const std::size_t longest = round % 2 == 0 ? 100 : 70'000;
    for (std::size_t text = 0; text < 1'800'000;) {
      const auto arrival = static_cast<Arrival>(random() % 8);
      const bool falls = random() % 2 != 0;
      const std::size_t count = 1 + random() % 20'000;
      for (std::size_t i = 0; i < count && text < 1'800'000; ++i) {
        const std::size_t bytes = random() % 200 == 0 ? 24 + random() % longest : 24;
        lines.push_back(line_of(key_of(arrival, falls, i, count, random) / 8, lines.size(),
                                options.order, bytes));
        text += bytes;
      }
    }
    options.resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    SCOPED_TRACE("round " + std::to_string(round));
    put_input(lines);
    expect_output(sorted(lines, options.order));
  }
}

using LongRecords = LineFolder;

// A long record that fits, but not with its key, waits behind the others until these leave room:
// in the middle of the memory, which becomes two arenas then.
TEST_F(LongRecords, WaitWhileOthersStay) {
  options.order.keys = std::make_shared<KeysBehindComma>();
  options.resources.block_bytes = kBlock;
  options.resources.threads = 2;
  for (std::size_t before = 16'000; before < 24'000; before += 500) {
    SCOPED_TRACE(before);
    Lines lines;
    for (std::size_t i = 0; i < 30'000; ++i) lines.push_back("," + std::to_string(100'000 + i));
    lines[before].append(130'000, 'x');
    LineSorter sorter(options.order, options.resources);
    EXPECT_TRUE(pushed_through(sorter, lines) == lines);
    EXPECT_GE(sorter.counts().runs, 1u);
  }
}

using FailingRuns = LineFolder;

// Another may follow.
TEST_F(FailingRuns, GiveBackWhatTheyHaveTaken) {
  const StoredOrder order(options.order);
  const LinePlan plan = plan_lines(options.resources, 8 << 20);
  BlockPool pool(BlockPoolOptions{.pool_bytes = plan.pool_blocks * plan.block_bytes,
                                  .block_bytes = plan.block_bytes});
  SortWatch watch({}, {});
  LineRuns line_runs(order, plan, pool, watch, {.folders = options.resources.folders});
  const std::size_t guaranteed = pool.statistics().blocks_guaranteed;
  const std::string line(100'000, 'x');
  const auto write = [&](LineRunWriter& run) {
    guarded([&] { run.append({line, line}, 0, 1); }).throw_if_failed();
  };
  const auto fail = [&](LineRunWriter& run) {
    write(run);
    throw Error(EIO, "a record that cannot be read");
  };
  EXPECT_EQ(error_of([&] { line_runs.form(1 << 20, fail); }), EIO);
  EXPECT_FALSE(line_runs.is_open());
  EXPECT_EQ(pool.statistics().blocks_guaranteed, guaranteed);
  line_runs.form(1 << 20, write);
  EXPECT_EQ(line_runs.size(), 1u);
}

// Runs that fall are parts until they end.
TEST_F(FailingRuns, ThatFallLeaveNothing) {
  auto random = test_random();
  options.resources.block_bytes = kBlock;
  const Lines lines = arriving(Arrival::kDrifting, true, kLines, options.order, random);
  put_input(lines);
  for (int round = 0; round < 12; ++round) {
    options.resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    options.resources.compression =
        random() % 2 == 0 ? RunCompression::kAlways : RunCompression::kNever;
    const auto phase = random() % 2 == 0 ? SortPhase::kReading : SortPhase::kWriting;
    const Lines expected = sorted(lines, options.order);
    EXPECT_EQ(expect_whole_or_nothing(expected, phase, random).runs, 1u);
  }
}

// Keys that are longer than anybody reckons with: a run has no room for all, and another goes on.
class LongKeys final : public RecordKeys {
 public:
  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (const std::string_view record : records) {
      for (int i = 0; i < 12; ++i) keys.append(record);
      keys.end_key();
    }
  }
};

using FullRuns = LineFolder;

TEST_F(FullRuns, AreFollowedByOthers) {
  auto random = test_random();
  const Lines lines = arriving(Arrival::kSorted, false, 20'000, {}, random);
  options.order.keys = std::make_shared<LongKeys>();
  options.resources.block_bytes = kBlock;
  put_input(lines);
  const std::uint64_t runs = expect_output(lines).runs;
  EXPECT_GE(runs, 2u);
  EXPECT_LE(runs, 4u);
}

}}  // namespace vortex::test::run_growth_test
