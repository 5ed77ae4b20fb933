// Forecast and flush against its description in Barve and Vitter, section 3.1.
#include "sort/merge/forecast_and_flush.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/merge/merge_inputs.h"
#include "tests/merge/policy_driver.h"
#include "tests/support/random_seed.h"

namespace vortex::test::forecast_and_flush_test { namespace {

// The scheme as section 3.1 has it, with sets in place of the lookahead and occupancy queues: what
// is farthest is flushed, and then the smallest block of each disk is read, be it one just flushed.
// Reads take no time.
class PlainForecastAndFlush {
 public:
  PlainForecastAndFlush(const MergeTrace& trace, unsigned disks, std::size_t buffers)
      : trace_(trace), on_disk_(disks), free_(buffers) {
    std::vector<unsigned> first_blocks(disks);
    for (Position position = 0; position < trace.order.size(); ++position) {
      if (position < trace.runs) {
        --free_;
        parallel_reads_ =
            std::max<std::uint64_t>(parallel_reads_, ++first_blocks[trace.order[position].disk]);
      } else {
        on_disk_[trace.order[position].disk].insert(position);
      }
    }
    parallel_read();
  }

  // The merge does a step; true when a parallel read followed.
  bool step(const MergeStep& step) {
    free_ += step.released != kNoPosition;
    if (step.taken == kNoPosition || step.taken < trace_.runs) return false;
    EXPECT_EQ(prefetched_.erase(step.taken), 1U) << "the merge needs a block that is not there";
    if (step.taken != marked_) return false;
    parallel_read();
    return true;
  }

  const std::set<Position>& prefetched() const { return prefetched_; }
  std::uint64_t parallel_reads() const { return parallel_reads_; }
  std::uint64_t reads() const { return reads_; }
  std::uint64_t drops() const { return drops_; }

 private:
  void parallel_read() {
    std::set<Position> flushed;
    for (; free_ < wanted(); ++free_) {
      const Position farthest = *prefetched_.rbegin();
      prefetched_.erase(farthest);
      on_disk_[trace_.order[farthest].disk].insert(farthest);
      flushed.insert(farthest);
    }
    marked_ = kNoPosition;
    std::size_t read = 0;
    drops_ += flushed.size();
    for (auto& disk : on_disk_) {
      if (disk.empty()) continue;
      const Position smallest = *disk.begin();
      disk.erase(disk.begin());
      prefetched_.insert(smallest);
      --free_;
      marked_ = std::min(marked_, smallest);
      // Footnote 10: what was flushed a moment ago need not be read.
      if (flushed.count(smallest) != 0) {
        --drops_;
      } else {
        ++read;
      }
    }
    reads_ += read;
    parallel_reads_ += read != 0;
  }

  std::size_t wanted() const {
    return static_cast<std::size_t>(std::count_if(
        on_disk_.begin(), on_disk_.end(), [](const auto& blocks) { return !blocks.empty(); }));
  }

  const MergeTrace& trace_;
  std::vector<std::set<Position>> on_disk_;  // behind the first blocks
  std::set<Position> prefetched_;
  std::size_t free_;
  Position marked_ = kNoPosition;  // the smallest block of the last parallel read
  std::uint64_t parallel_reads_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t drops_ = 0;
};

// Carries out all that the policy wants, at once.
void settle(PrefetchPolicy& policy) {
  std::vector<Position> reads;
  do {
    for (const Position position : reads) policy.fetched(position);
    reads.clear();
    for (PrefetchAction action;
         action = policy.next(), action.kind != PrefetchAction::Kind::kNothing;) {
      if (action.kind == PrefetchAction::Kind::kFetch) reads.push_back(action.position);
    }
  } while (!reads.empty());
}

TEST(ForecastAndFlush, DoesWhatThePaperSays) {
  auto random = test_random();
  std::uint64_t drops = 0;
  for (unsigned round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const RunShape shape = kAllShapes[round % std::size(kAllShapes)];
    const unsigned disks = 1 + random() % 8;
    const Runs runs = make_runs(shape, 1 + random() % 12, 40, 3, random);
    const auto count = static_cast<std::uint32_t>(runs.size());
    const AllocationStrategy strategy =
        round % 2 == 0 ? AllocationStrategy::kSimpleRandomized : random_strategy(random);
    const MergeTrace trace = plain_trace(runs, 3, allocations(strategy, disks, count, random()));
    const PrefetchOptions options = {
        .disks = disks, .buffers = 2 * count + disks + random() % 3, .held_blocks = count};

    ForecastAndFlush policy(known_order(trace), options, count);
    PlainForecastAndFlush plain(trace, disks, options.buffers);
    settle(policy);
    std::size_t step = 0;
    for (; step < trace.steps.size() && trace.steps[step].records_before == 0; ++step) {
      policy.taken(trace.steps[step].taken);
    }
    for (; step < trace.steps.size(); ++step) {
      for (Position position = 0; position < trace.order.size(); ++position) {
        ASSERT_EQ(policy.ready(position), plain.prefetched().count(position) != 0)
            << "block " << position << " before step " << step;
      }
      if (trace.steps[step].released != kNoPosition) policy.released(trace.steps[step].released);
      if (trace.steps[step].taken != kNoPosition) policy.taken(trace.steps[step].taken);
      settle(policy);
      plain.step(trace.steps[step]);
    }
    EXPECT_EQ(policy.statistics().parallel_reads, plain.parallel_reads());
    EXPECT_EQ(policy.statistics().fetches, count + plain.reads());
    EXPECT_EQ(policy.statistics().drops, plain.drops());
    drops += plain.drops();
  }
  EXPECT_GT(drops, 0U) << "no instance flushed anything";
}

// Blocks become known in their order, are read from the front, and some come back in any order.
TEST(DiskLookahead, KeepsEachDiskInTheOrderOfNeed) {
  auto random = test_random();
  constexpr unsigned kDisks = 3;
  constexpr Position kBlocks = 400;
  for (unsigned round = 0; round < 20; ++round) {
    DiskLookahead lookahead(kDisks, kBlocks);
    std::vector<std::set<Position>> expected(kDisks);
    std::vector<std::pair<unsigned, Position>> read;
    for (Position known = 0; known < kBlocks;) {
      const auto disk = static_cast<unsigned>(random() % kDisks);
      switch (random() % 3) {
        case 0:
          lookahead.append(disk, known);
          expected[disk].insert(known++);
          break;
        case 1:
          if (expected[disk].empty()) break;
          read.emplace_back(disk, lookahead.head(disk));
          lookahead.remove_head(disk);
          expected[disk].erase(expected[disk].begin());
          break;
        case 2:
          if (read.empty()) break;
          std::swap(read[random() % read.size()], read.back());
          lookahead.put_back(read.back().first, read.back().second);
          expected[read.back().first].insert(read.back().second);
          read.pop_back();
          break;
      }
      for (unsigned each = 0; each < kDisks; ++each) {
        ASSERT_EQ(lookahead.head(each),
                  expected[each].empty() ? kNoPosition : *expected[each].begin());
      }
    }
  }
}

// Section 4.4 asks for m of at least 2R + D, and each block that the merge holds besides is one
// more.
TEST(ForecastAndFlush, NeedsTwoBuffersARunAndOneADisk) {
  const auto least = [](std::size_t held_blocks, std::uint32_t runs) {
    return ForecastAndFlush::minimum_buffers({.disks = 6, .buffers = 0, .held_blocks = held_blocks},
                                             runs);
  };
  EXPECT_EQ(least(5, 5), 2U * 5 + 6);
  EXPECT_EQ(least(10, 5), 3U * 5 + 6);
  // Two of the runs are empty.
  EXPECT_EQ(least(3, 5), 2U * 5 + 6);
}

// Worked by hand: one run, three disks, six buffers. The disks 1 and 2 run ahead while the merge
// uses up what is on disk 0. When 2 is taken, one buffer is free and three blocks could be read: 11
// is flushed, and 10, which would be the next to be read from the same disk, stays instead.
TEST(ForecastAndFlush, FlushedBlocksAreFetchedAgain) {
  const std::vector<std::uint32_t> disk_of = {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1, 1, 1, 2};
  MergeTrace trace;
  trace.runs = 1;
  trace.held_blocks = 1;
  trace.records = disk_of.size();
  for (Position position = 0; position < disk_of.size(); ++position) {
    trace.order.push_back({0, disk_of[position], position});
    MergeStep step = {.records_before = position, .taken = position};
    if (position != 0) step.released = position - 1;
    trace.steps.push_back(step);
  }
  trace.steps.push_back({.records_before = 14, .released = 13});

  ForecastAndFlush policy(known_order(trace), {.disks = 3, .buffers = 6, .held_blocks = 1}, 1);
  std::vector<std::string> actions;
  const auto carry_out = [&] {
    std::vector<Position> reads;
    std::string line;
    for (;;) {
      const PrefetchAction action = policy.next();
      if (action.kind == PrefetchAction::Kind::kNothing) {
        if (reads.empty()) break;
        actions.push_back(line);
        line.clear();
        for (const Position position : reads) policy.fetched(position);
        reads.clear();
        continue;
      }
      const bool fetch = action.kind == PrefetchAction::Kind::kFetch;
      line += fetch ? '+' : '-';
      line += std::to_string(action.position);
      line += ' ';
      if (fetch) reads.push_back(action.position);
    }
  };
  carry_out();
  for (const MergeStep& step : trace.steps) {
    if (step.released != kNoPosition) policy.released(step.released);
    if (step.taken != kNoPosition) policy.taken(step.taken);
    carry_out();
  }
  EXPECT_EQ(actions, (std::vector<std::string>{"+0 ", "+1 +10 +8 ", "+2 +11 +9 ", "-11 +3 +13 ",
                                               "+4 ", "+5 ", "+6 ", "+7 ", "+11 ", "+12 "}));
  EXPECT_EQ(policy.statistics().drops, 1U);
}

TEST(AsynchronousForecastAndFlush, AnIdleDiskWaitsForNoOther) {
  // Two runs on two disks; disk 1 answers at once, disk 0 never.
  MergeTrace trace;
  for (Position position = 0; position < 10; ++position) {
    trace.order.push_back({position % 2, position % 2, position / 2});
  }
  AsynchronousForecastAndFlush policy(known_order(trace),
                                      {.disks = 2, .buffers = 6, .held_blocks = 2}, 2);
  std::vector<Position> fetched;
  for (PrefetchAction action;
       action = policy.next(), action.kind != PrefetchAction::Kind::kNothing;) {
    fetched.push_back(action.position);
    if (action.block.disk == 1) policy.fetched(action.position);
  }
  EXPECT_EQ(fetched, (std::vector<Position>{0, 1, 3, 5, 7, 9}));
  // Disk 0 comes back: its next block is needed soon, so the farthest block makes room for it.
  policy.fetched(0);
  PrefetchAction action = policy.next();
  EXPECT_EQ(action.kind, PrefetchAction::Kind::kNothing) << "2 is not yet among the next D";
  policy.taken(0);
  policy.taken(1);
  action = policy.next();
  EXPECT_EQ(action.kind, PrefetchAction::Kind::kDrop);
  EXPECT_EQ(action.position, 9U);
  action = policy.next();
  EXPECT_EQ(action.kind, PrefetchAction::Kind::kFetch);
  EXPECT_EQ(action.position, 2U);
}

// Few runs on many disks, where reads that take long hold most of the buffers.
TEST(AsynchronousForecastAndFlush, DropsABlockOnlyForOneThatIsNeededBefore) {
  auto random = test_random();
  std::uint64_t drops = 0;
  for (unsigned round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const auto disks = static_cast<unsigned>(1 + random() % 10);
    const Runs runs = make_runs(kAllShapes[round % std::size(kAllShapes)],
                                static_cast<unsigned>(1 + random() % 3), 60, 3, random);
    const auto count = static_cast<std::uint32_t>(runs.size());
    const MergeTrace trace =
        plain_trace(runs, 3, allocations(AllocationStrategy::kFullyRandom, disks, count, random()));
    const PrefetchOptions options = {
        .disks = disks, .buffers = 2 * count + disks, .held_blocks = count};
    AsynchronousForecastAndFlush policy(known_order(trace), options, count,
                                        static_cast<unsigned>(1 + random() % 3));
    std::vector<Position> reading;
    const auto carry_out = [&] {
      Position dropped = kNoPosition;
      for (PrefetchAction action;
           action = policy.next(), action.kind != PrefetchAction::Kind::kNothing;) {
        if (action.kind == PrefetchAction::Kind::kDrop) {
          dropped = action.position;
          ++drops;
          continue;
        }
        EXPECT_LT(action.position, dropped);
        dropped = kNoPosition;
        reading.push_back(action.position);
      }
    };
    carry_out();
    bool released = false;
    for (std::size_t step = 0; step < trace.steps.size();) {
      const MergeStep& next = trace.steps[step];
      if (next.released != kNoPosition && !released) {
        released = true;
        policy.released(next.released);
        carry_out();
      }
      const bool waits = next.taken != kNoPosition && !policy.ready(next.taken);
      if (!reading.empty() && (waits || random() % 8 == 0)) {
        std::swap(reading[random() % reading.size()], reading.back());
        policy.fetched(reading.back());
        reading.pop_back();
      } else {
        ASSERT_FALSE(waits) << "stuck";
        if (next.taken != kNoPosition) policy.taken(next.taken);
        released = false;
        ++step;
      }
      carry_out();
    }
  }
  EXPECT_GT(drops, 0U);
}

}  // namespace

}  // namespace vortex::test::forecast_and_flush_test
