// Groups of equal keys, found among sorted records and shared out to threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/detail/array/large_groups.h"

namespace vortex::test::large_groups_test { namespace {

using namespace detail;

struct Piece {
  std::size_t begin, end;
  std::size_t size() const noexcept { return end - begin; }
  Piece part(std::size_t from, std::size_t to) const noexcept { return {begin + from, begin + to}; }
};

TEST(LargeGroups, EqualOnesAreCountedInFewSteps) {
  for (const std::size_t most : {0U, 1U, 2U, 3U, 7U, 8U, 100U, 1000U}) {
    for (std::size_t equal = 0; equal <= most; ++equal) {
      unsigned looks = 0;
      EXPECT_EQ(steps_of_equal(most,
                               [&](std::size_t steps) {
                                 EXPECT_TRUE(steps >= 1 && steps <= most);
                                 ++looks;
                                 return steps <= equal;
                               }),
                equal)
          << most;
      EXPECT_LE(looks, equal < 2 ? equal + 2 : 20U) << equal << " of " << most;
    }
  }
}

// In both directions.
TEST(LargeGroups, AreCutOutWhole) {
  auto random = test_random();
  for (int turn = 0; turn < 400; ++turn) {
    const std::size_t count = random() % 3000;
    std::vector<std::uint64_t> keys(count);
    const std::uint64_t values = 1 + random() % 300;
    for (std::uint64_t& key : keys) key = random() % values * (random() % 3);
    std::sort(keys.begin(), keys.end());
    if (turn % 2 == 0) std::reverse(keys.begin(), keys.end());
    const std::size_t task = 1 + random() % 100, large = task + 1 + random() % 100;
    std::vector<Piece> tasks, groups, expected;
    cut_by_groups(
        Piece{0, count}, [&](std::size_t i) { return keys[i]; }, large, task, tasks, groups);
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      while (end < count && keys[end] == keys[begin]) ++end;
      if (end - begin >= large) expected.push_back({begin, end});
    }
    ASSERT_TRUE(std::equal(
        groups.begin(), groups.end(), expected.begin(), expected.end(),
        [](const Piece& a, const Piece& b) { return a.begin == b.begin && a.end == b.end; }));
    std::vector<unsigned> taken(count);
    for (const auto* pieces : {&tasks, &groups}) {
      for (const Piece& piece : *pieces) {
        ASSERT_GT(piece.size(), 1U);
        for (std::size_t i = piece.begin; i < piece.end; ++i) ++taken[i];
        ASSERT_TRUE(piece.begin == 0 || keys[piece.begin - 1] != keys[piece.begin]);
        ASSERT_TRUE(piece.end == count || keys[piece.end - 1] != keys[piece.end]);
      }
    }
    for (const Piece& piece : tasks) ASSERT_LE(piece.size(), task + large);
    for (std::size_t i = 0; i < count; ++i) {
      // What is alone needs no sorting.
      const bool alone =
          (i == 0 || keys[i - 1] != keys[i]) && (i + 1 == count || keys[i + 1] != keys[i]);
      ASSERT_TRUE(taken[i] == 1 || (alone && taken[i] == 0)) << i;
    }
  }
}

std::vector<Piece> pieces_of(const std::vector<std::size_t>& sizes) {
  std::vector<Piece> pieces;
  for (const std::size_t size : sizes) pieces.push_back({0, size});
  return pieces;
}

// Returns how many are for all.
std::size_t kept(std::vector<Piece> groups, unsigned threads, unsigned side_by_side,
                 const std::function<std::size_t(std::size_t)>& time_for_all) {
  std::vector<Piece> alone = {{0, 5}};
  const std::size_t count = groups.size();
  keep_for_all(groups, alone, threads, side_by_side, time_for_all);
  EXPECT_EQ(groups.size() + alone.size(), count + 1) << threads;
  for (std::size_t i = 1; i < alone.size(); ++i) EXPECT_LE(alone[i].size(), alone[i - 1].size());
  if (!groups.empty() && alone.size() > 1) {
    EXPECT_GE(groups.back().size(), alone.front().size());
  }
  return groups.size();
}

// As soon as the threads have enough to sort together, no thread has much more to do than its share
// in the longest of what goes on.
TEST(LargeGroups, LeaveNoThreadAlone) {
  const auto time_of = [](unsigned threads) {
    return [threads](std::size_t size) {
      return size / threads + std::min(size, std::max(size / threads, kSortedByThread)) / 4;
    };
  };
  for (const unsigned threads : {2U, 7U, 16U, 64U, 128U}) {
    const std::size_t share = std::size_t{1} << 22, all = share * threads;
    for (const std::size_t groups : {1U, 2U, 3U, 16U, 60U, 128U, 512U}) {
      const std::vector<Piece> equal(groups, {0, all / groups});
      const unsigned side_by_side = groups_at_once(all, threads);
      EXPECT_EQ(side_by_side, threads);
      const std::size_t together = kept(equal, threads, side_by_side, time_of(threads));
      EXPECT_TRUE(together == 0 || together == groups) << groups << " groups, " << threads;
      if (groups >= 2 * threads) {
        EXPECT_EQ(together, 0U);
      } else if (groups == 1 || (groups <= 3 && threads >= 7)) {
        EXPECT_EQ(together, groups);
      }
    }
  }
  // One is heavy, and there are many others.
  std::vector<Piece> some(100, {0, 1000});
  some[50].end = 10'000'000;
  EXPECT_EQ(kept(some, 16, 16, time_of(16)), 1u);
  EXPECT_EQ(kept(some, 1, 1, time_of(1)), 0u);
  // Memory for one at a time.
  EXPECT_EQ(kept({{0, 300'000}}, 16, 1, time_of(16)), 1u);
  EXPECT_EQ(kept({}, 16, 16, time_of(16)), 0u);
  EXPECT_EQ(groups_at_once(1000, 16), 1u);
}

// However many there are, and even where all threads take no time for a group but their shares.
TEST(LargeGroups, AllThreadsSortFewerThanThereAreThreads) {
  auto random = test_random();
  for (const unsigned threads : {2U, 7U, 16U, 64U, 128U}) {
    for (int turn = 0; turn < 300; ++turn) {
      std::vector<std::size_t> sizes(1 + random() % 1000);
      double size = 1e9;
      const double ratio = 1 - 1.0 / static_cast<double>(1 + random() % (2 * threads));
      for (std::size_t& of : sizes) {
        of = turn % 2 == 0 ? std::size_t{1} << (8 + random() % 22) : static_cast<std::size_t>(size);
        size *= ratio;
      }
      EXPECT_LT(kept(pieces_of(sizes), threads, threads,
                     [&](std::size_t records) { return records / threads + 1; }),
                threads);
    }
  }
}

}}  // namespace vortex::test::large_groups_test::
