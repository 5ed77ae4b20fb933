#include "sort/merge/merge_passes.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "study/srm_tables.h"

namespace vortex::test::merge_passes_test { namespace {

constexpr std::uint64_t kLargestOrder = 19;  // section 5.3.2

TEST(MergePasses, OrdersAndPassesOfTheTables) {
  for (const SrmTable& table : kSrmTables) {
    SCOPED_TRACE(table.name);
    for (const SrmColumn& column : table.columns) {
      EXPECT_EQ(smallest_merge_order(column.runs, kLargestOrder), column.srm_order);
      EXPECT_EQ(merge_passes(column.runs, column.srm_order), column.srm_passes);
      EXPECT_EQ(merge_passes(column.runs, table.dsm_order), column.dsm_passes);
    }
  }
}

TEST(MergePasses, SmallestOrderIsSmallest) {
  for (std::uint64_t runs = 1; runs < 400; ++runs) {
    for (std::uint64_t largest = 2; largest < 40; ++largest) {
      const std::uint64_t order = smallest_merge_order(runs, largest);
      EXPECT_EQ(merge_passes(runs, order), merge_passes(runs, largest));
      EXPECT_LE(order, largest);
      if (order > 2) {
        EXPECT_GT(merge_passes(runs, order - 1), merge_passes(runs, largest));
      }
    }
  }
}

// A whole sort's passes: as many as there must be, all but the first of everything, and that one
// of no more runs than any other choice of `groups` would take.
TEST(MergePasses, APassMergesNoMoreThanItMust) {
  for (std::uint64_t runs = 2; runs < 600; ++runs) {
    for (std::uint64_t largest = 2; largest < 30; ++largest) {
      for (const std::uint64_t most : {std::uint64_t{1}, std::uint64_t{2}, largest - 1, largest}) {
        if (most < 1 || most >= runs) continue;
        SCOPED_TRACE(testing::Message() << runs << " to " << most << " by " << largest);
        unsigned least_passes = 0;
        for (std::uint64_t reach = most; reach < runs; reach *= largest) ++least_passes;
        std::uint64_t left = runs;
        unsigned passes = 0;
        for (; left > most; ++passes) {
          const MergePass pass = next_merge_pass(left, most, largest);
          ASSERT_GE(pass.groups, 1U);
          ASSERT_GE(pass.merged, 2 * pass.groups);
          ASSERT_LE(pass.merged, largest * pass.groups);
          ASSERT_LE(pass.merged, left);
          if (passes > 0) {
            ASSERT_EQ(pass.merged, left);
          }
          // With a run less the passes behind would not do.
          if (passes == 0) {
            std::uint64_t reach = left - pass.merged + pass.groups;
            for (unsigned behind = 1; behind < least_passes; ++behind) {
              reach = (reach + largest - 1) / largest;
            }
            ASSERT_EQ(reach, most);
          }
          left -= pass.merged - pass.groups;
        }
        ASSERT_EQ(left, most);
        ASSERT_EQ(passes, least_passes);
      }
    }
  }
}

TEST(MergePasses, OneRunTooManyMergesTwo) {
  EXPECT_EQ(next_merge_pass(58, 57, 57).merged, 2U);
  EXPECT_EQ(next_merge_pass(59, 57, 57).merged, 3U);
  EXPECT_EQ(next_merge_pass(57 * 57, 57, 57).merged, 57U * 57U);
  EXPECT_EQ(next_merge_pass(57 * 57 + 1, 57, 57).merged, 2U);
}

TEST(MergePasses, SplitsOfThePaper) {
  EXPECT_EQ(default_prefetch_blocks(116, 8), 16U + 30U);
  EXPECT_EQ(default_prefetch_blocks(16, 8), 16U);
  EXPECT_EQ(default_prefetch_blocks(5, 8), 5U);
  EXPECT_EQ(default_prefetch_blocks(0, 8), 1U);
  EXPECT_EQ(default_write_blocks(188, 8), 47U);
  EXPECT_EQ(default_write_blocks(40, 8), 16U);
  EXPECT_EQ(default_write_blocks(10, 8), 9U);
  EXPECT_EQ(default_write_blocks(1, 8), 1U);
  // 512 MiB, 64 runs, 8 disks: 4 MiB would just do.
  EXPECT_EQ(default_merge_block_bytes(std::uint64_t{512} << 20, 64, 8), std::uint64_t{2} << 20);
}

}  // namespace

}  // namespace vortex::test::merge_passes_test
