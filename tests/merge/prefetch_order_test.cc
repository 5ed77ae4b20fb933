// The optimal prefetch order against exhaustive search.
#include "sort/merge/in_order_prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/error.h"

namespace vortex::test::prefetch_order_test { namespace {

std::vector<std::uint32_t> random_disks(std::size_t blocks, unsigned disks,
                                        std::mt19937_64& random) {
  std::vector<std::uint32_t> disk_of(blocks);
  // Now and then a stretch of one disk, which is what prefetching is for.
  std::uint32_t disk = 0;
  for (auto& value : disk_of) {
    if (random() % 3 != 0) disk = static_cast<std::uint32_t>(random() % disks);
    value = disk;
  }
  return disk_of;
}

// The least number of parallel steps by trying everything: in a step any set of unread blocks, at
// most one of each disk, is read into free buffers; then the blocks that are next in the order are
// taken and give their buffers back. Blocks taken so far and blocks read so far make a state; all
// states that some choice reaches are kept.
unsigned least_steps(const std::vector<std::uint32_t>& disk_of, unsigned disks, unsigned buffers) {
  using Blocks = std::uint32_t;  // a set of positions
  const auto blocks = static_cast<unsigned>(disk_of.size());
  const Blocks all = blocks == 32 ? ~Blocks{0} : (Blocks{1} << blocks) - 1;
  std::set<Blocks> states = {0};
  for (unsigned steps = 0;; ++steps) {
    if (states.count(all) != 0) return steps;
    std::set<Blocks> reached;
    for (const Blocks read : states) {
      // The blocks that have been read decide which have been taken: all up to the first gap.
      const auto taken = static_cast<unsigned>(std::countr_one(read));
      const unsigned free = buffers - static_cast<unsigned>(std::popcount(read >> taken));
      std::set<Blocks> choices = {0};
      for (unsigned disk = 0; disk < disks; ++disk) {
        std::set<Blocks> more = choices;
        for (unsigned position = 0; position < blocks; ++position) {
          if (disk_of[position] != disk || (read >> position & 1) != 0) continue;
          for (const Blocks choice : choices) more.insert(choice | Blocks{1} << position);
        }
        choices = std::move(more);
      }
      for (const Blocks choice : choices) {
        if (choice != 0 && static_cast<unsigned>(std::popcount(choice)) <= free) {
          reached.insert(read | choice);
        }
      }
    }
    states = std::move(reached);
  }
}

// Reads step by step what `order` says, and checks that each step is one: at most a block a disk,
// and never more than `buffers` blocks in memory.
void check_schedule(const PrefetchOrder& order, const std::vector<std::uint32_t>& disk_of,
                    unsigned buffers) {
  ASSERT_EQ(order.order.size(), disk_of.size());
  ASSERT_EQ(order.step.size(), disk_of.size());
  std::vector<bool> read(disk_of.size(), false);
  std::size_t taken = 0, in_memory = 0, next = 0;
  for (std::uint32_t step = 0; step < order.steps; ++step) {
    std::set<std::uint32_t> busy;
    for (; next < order.order.size() && order.step[next] == step; ++next) {
      const Position position = order.order[next];
      ASSERT_TRUE(busy.insert(disk_of[position]).second) << "two blocks of a disk in step " << step;
      ASSERT_FALSE(read[position]);
      read[position] = true;
      ++in_memory;
    }
    ASSERT_FALSE(busy.empty());
    ASSERT_LE(in_memory, buffers) << "in step " << step;
    for (; taken < read.size() && read[taken]; ++taken) --in_memory;
  }
  ASSERT_EQ(next, order.order.size());
  ASSERT_EQ(taken, order.order.size());
}

TEST(PrefetchOrder, ReadsAStretchOfOneDiskAhead) {
  // Needed: a, b on disk 0, then c, d, e on disk 1. Disk 1 starts at once.
  const std::vector<std::uint32_t> disk_of = {0, 0, 1, 1, 1};
  const PrefetchOrder order = optimal_prefetch_order(disk_of, 2, 3);
  EXPECT_EQ(order.steps, 3U);
  EXPECT_EQ(order.order, (std::vector<Position>{0, 2, 1, 3, 4}));
  EXPECT_EQ(order.step, (std::vector<std::uint32_t>{0, 0, 1, 1, 2}));
  // With one buffer nothing can be read ahead.
  EXPECT_EQ(optimal_prefetch_order(disk_of, 2, 1).order, (std::vector<Position>{0, 1, 2, 3, 4}));
}

TEST(PrefetchOrder, NeedsTheLeastNumberOfSteps) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 6000 : 400;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned disks = 1 + random() % 3, buffers = 1 + random() % 5;
    const auto disk_of = random_disks(1 + random() % 9, disks, random);
    const PrefetchOrder order = optimal_prefetch_order(disk_of, disks, buffers);
    ASSERT_EQ(order.steps, least_steps(disk_of, disks, buffers))
        << "disks " << disks << " buffers " << buffers << " blocks "
        << ::testing::PrintToString(disk_of);
    check_schedule(order, disk_of, buffers);
  }
}

TEST(PrefetchOrder, NeedsTheLeastNumberOfStepsForEverySmallInstance) {
  // Every placement of six blocks on two disks and of five on three.
  for (const auto& [blocks, disks] : {std::pair{6U, 2U}, std::pair{5U, 3U}}) {
    std::vector<std::uint32_t> disk_of(blocks, 0);
    for (;;) {
      for (unsigned buffers = 1; buffers <= 4; ++buffers) {
        ASSERT_EQ(optimal_prefetch_order(disk_of, disks, buffers).steps,
                  least_steps(disk_of, disks, buffers));
      }
      auto digit = disk_of.begin();
      while (digit != disk_of.end() && ++*digit == disks) *digit++ = 0;
      if (digit == disk_of.end()) break;
    }
  }
}

TEST(PrefetchOrder, LargeSchedulesKeepToTheirBuffers) {
  auto random = test_random();
  for (unsigned round = 0; round < 50; ++round) {
    const unsigned disks = 1 + random() % 16;
    const unsigned buffers = 1 + random() % (6 * disks);
    const auto disk_of = random_disks(random() % 3000, disks, random);
    check_schedule(optimal_prefetch_order(disk_of, disks, buffers), disk_of, buffers);
  }
}

TEST(PrefetchOrder, MoreBuffersNeverCostSteps) {
  auto random = test_random();
  const auto disk_of = random_disks(2000, 8, random);
  std::uint32_t steps = 2001;
  for (unsigned buffers = 1; buffers < 100; ++buffers) {
    const std::uint32_t now = optimal_prefetch_order(disk_of, 8, buffers).steps;
    EXPECT_LE(now, steps) << buffers;
    steps = now;
  }
  // With buffers for all blocks only the fullest disk counts.
  std::map<std::uint32_t, std::uint32_t> load;
  for (const std::uint32_t disk : disk_of) ++load[disk];
  std::uint32_t fullest = 0;
  for (const auto& [disk, blocks] : load) fullest = std::max(fullest, blocks);
  EXPECT_EQ(optimal_prefetch_order(disk_of, 8, disk_of.size()).steps, fullest);
}

TEST(PrefetchOrder, SlowDisksStartEarlier) {
  // Disk 1 takes four steps for a block. Its one block is needed last, and is fetched so that it is
  // there when the four blocks of disk 0 have been read.
  const std::vector<std::uint32_t> disk_of = {0, 0, 0, 0, 1};
  EXPECT_EQ(optimal_prefetch_order(disk_of, 2, 3).order, (std::vector<Position>{0, 1, 2, 3, 4}));
  const std::vector<unsigned> block_times = {1, 4};
  const PrefetchOrder order = optimal_prefetch_order(disk_of, 2, 3, block_times);
  EXPECT_EQ(order.steps, 4U);
  EXPECT_EQ(order.order, (std::vector<Position>{0, 4, 1, 2, 3}));
}

TEST(PrefetchOrder, UnequalDisksFetchEveryBlockOnce) {
  auto random = test_random();
  for (unsigned round = 0; round < 50; ++round) {
    const unsigned disks = 1 + random() % 6;
    std::vector<unsigned> block_times(disks);
    for (auto& time : block_times) time = 1 + random() % 5;
    const auto disk_of = random_disks(random() % 500, disks, random);
    const std::size_t buffers = 1 + random() % 20;
    const PrefetchOrder found = optimal_prefetch_order(disk_of, disks, buffers, block_times);
    // Times are in any unit, however small.
    constexpr unsigned kSmaller = 100'000;
    for (auto& time : block_times) time *= kSmaller;
    const PrefetchOrder same = optimal_prefetch_order(disk_of, disks, buffers, block_times);
    EXPECT_EQ(same.order, found.order);
    EXPECT_EQ(same.steps, found.steps * kSmaller);
    auto order = found.order;
    // A disk's blocks are fetched in the order in which they are needed.
    std::vector<Position> last(disks, 0);
    for (const Position position : order) {
      EXPECT_GE(position, last[disk_of[position]]);
      last[disk_of[position]] = position;
    }
    std::sort(order.begin(), order.end());
    std::vector<Position> all(disk_of.size());
    std::iota(all.begin(), all.end(), Position{0});
    EXPECT_EQ(order, all);
  }
}

TEST(PrefetchOrder, RefusesWhatMakesNoSense) {
  const std::vector<std::uint32_t> disk_of = {0, 0};
  EXPECT_THROW(optimal_prefetch_order(disk_of, 0, 1), Error);
  EXPECT_THROW(optimal_prefetch_order(disk_of, 1, 0), Error);
  EXPECT_THROW(optimal_prefetch_order(disk_of, 1, 1, std::vector<unsigned>{0}), Error);
  EXPECT_THROW(optimal_prefetch_order(disk_of, 1, 1, std::vector<unsigned>{1, 1}), Error);
  EXPECT_EQ(optimal_prefetch_order({}, 1, 1).steps, 0U);
}

}  // namespace

}  // namespace vortex::test::prefetch_order_test
