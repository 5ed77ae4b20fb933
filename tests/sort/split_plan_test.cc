#include "sort/split_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "vortex/error.h"

namespace vortex {
namespace {

TEST(SplitPlan, LeastDepthThenLeastVariance) {
  EXPECT_EQ(plan_splits(20), (std::vector<int>{7, 7, 6}));  // the example of section 5.5
  EXPECT_EQ(plan_splits(8), (std::vector<int>{8}));
  EXPECT_EQ(plan_splits(9), (std::vector<int>{5, 4}));
  EXPECT_EQ(plan_splits(24), (std::vector<int>{8, 8, 8}));
  EXPECT_TRUE(plan_splits(0).empty());
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

}  // namespace
}  // namespace vortex
