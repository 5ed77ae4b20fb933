#include "vortex/detail/radix/split_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "vortex/error.h"

namespace vortex { namespace {

using namespace detail;

TEST(SplitPlan, LeastDepthThenLeastVariance) {
  EXPECT_EQ(plan_splits(20), (std::vector<int>{7, 7, 6}));  // the example of section 5.5
  EXPECT_EQ(plan_splits(8), (std::vector<int>{8}));
  EXPECT_EQ(plan_splits(9), (std::vector<int>{5, 4}));
  EXPECT_EQ(plan_splits(24), (std::vector<int>{8, 8, 8}));
  EXPECT_TRUE(plan_splits(0).empty());
  EXPECT_THROW(plan_splits(3, 0), Error);
}

// All sequences, tried one by one.
double cheapest(int bits, const std::vector<double>& speeds) {
  if (bits == 0) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (int b = 1; b <= bits && b < static_cast<int>(speeds.size()); ++b) {
    if (speeds[b] > 0) best = std::min(best, 1 / speeds[b] + cheapest(bits - b, speeds));
  }
  return best;
}

TEST(SplitPlan, MinimisesTheSumOfTimes) {
  const std::vector<double> speeds = {0, 900, 880, 860, 850, 840, 830, 700, 690, 500, 0, 320};
  for (int bits = 1; bits <= 18; ++bits) {
    const std::vector<int> splits = plan_splits(bits, speeds);
    EXPECT_EQ(std::accumulate(splits.begin(), splits.end(), 0), bits);
    double cost = 0;
    for (int b : splits) cost += 1 / speeds[b];
    EXPECT_NEAR(cost, cheapest(bits, speeds), 1e-12) << bits;
  }
  EXPECT_THROW(plan_splits(3, std::vector<double>{0, 0, 1}), Error);
}

TEST(SplitPlan, StepsAreTheFirstSplitsOfPlans) {
  const SplitSteps least;
  for (int bits = 1; bits <= 64; ++bits) EXPECT_EQ(least.next(bits), plan_splits(bits).front());
  EXPECT_EQ(least.next(0), 0);
  // With 3 and 7 bits only: 7 + 3 make 10, 3 + 3 + 3 make 9; 8 bits are split as 9, 2 as 3.
  const double speeds[] = {0, 0, 0, 1, 0, 0, 0, 2};
  const SplitSteps steps(speeds);
  EXPECT_EQ(steps.next(10), 7);
  EXPECT_EQ(steps.next(9), 3);
  EXPECT_EQ(steps.next(8), 3);
  EXPECT_EQ(steps.next(2), 3);
  EXPECT_EQ(steps.next(0), 0);
  EXPECT_THROW(SplitSteps(std::span<const double>(speeds, 3)), Error);
  EXPECT_THROW(SplitSteps(std::span<const double>{}), Error);
}

TEST(SplitPlan, BucketsFitTheAddressSpace) {
  // 2^b buckets on each level, the array and its pool.
  EXPECT_EQ(most_split_bits(0), 8);
  EXPECT_EQ(most_split_bits((std::uint64_t{1} << 47) / 258), 8);
  EXPECT_EQ(most_split_bits((std::uint64_t{1} << 47) / 258 + 1), 7);
  EXPECT_EQ(most_split_bits(std::uint64_t{1} << 40), 6);
  EXPECT_EQ(most_split_bits(std::uint64_t{1} << 40, 3), 5);
  EXPECT_EQ(most_split_bits(std::uint64_t{1} << 40, 1, 48), 7);
  EXPECT_EQ(most_split_bits(std::uint64_t{1} << 46), 0);
}

}  // namespace

}  // namespace vortex
