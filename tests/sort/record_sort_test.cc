#include "vortex/detail/merge/record_sort.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/sort/record_lists.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/merge/record_kernels.h"

namespace vortex { namespace {

using namespace detail;

using test::RecordCollector;
using test::RecordList;

void expect_sorted(const RecordOrder& order, const RecordList& list, std::size_t scratch_bytes) {
  RecordList work = list;
  std::vector<std::byte> scratch(scratch_bytes);
  RecordCollector out(list.record_bytes);
  order.sort(work.bytes.data(), work.count(), scratch, out);
  ASSERT_EQ(out.list.bytes, stably_sorted(order, list).bytes)
      << list.count() << " records of " << list.record_bytes << " bytes, scratch of "
      << scratch_bytes;
}

std::vector<std::size_t> scratches(std::size_t count) {
  const std::size_t least = least_sort_scratch_bytes(count);
  return {least, 2 * least + 5, count * 4 + least, count * 16 + 16, count * 32 + 16};
}

TEST(RecordSort, LikeStableSort) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {1u, 2u, 7u, 8u, 9u, 16u, 24u, 100u, 255u, 257u, 1000u}) {
    for (const test::Shape shape : test::kShapes) {
      const std::size_t count = random() % 3 == 0 ? random() % 40 : random() % 3000;
      const RecordList list = test::make_records(shape, record_bytes, count, random);
      const FormatOrder order(test::random_format(record_bytes, random));
      SCOPED_TRACE(to_string(order.format()));
      for (const std::size_t scratch : scratches(count)) {
        ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, scratch));
      }
    }
  }
}

// Outliers on every level, with as many records as make them levels.
TEST(RecordSort, NestedOutliers) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {16u, 24u, 100u}) {
    for (int turn = 0; turn < 4; ++turn) {
      const RecordList list =
          test::make_records(test::Shape::kNestedOutliers, record_bytes, 23000, random);
      const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
      for (const std::size_t scratch : scratches(list.count())) {
        ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, scratch));
      }
    }
  }
}

// Counting passes of several levels, on every set of instructions.
TEST(RecordSort, ManyRecords) {
  auto random = test::test_random();
  const Isa best = best_isa();
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!use_isa(isa)) continue;
    for (const test::Shape shape : test::kShapes) {
      const RecordList list = test::make_records(shape, 12, 60000, random);
      const FormatOrder order(RecordFormat(12, {{0, 8, {}, false}}));
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, 60000 * 32 + 16));
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, 60000 * 16 + 16));
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, 60000));
    }
  }
  use_isa(best);
}

TEST(RecordSort, ByComparator) {
  auto random = test::test_random();
  using Pair = test::KeyAndValue;
  const auto by_low_bits = [](const Pair& a, const Pair& b) { return a.key % 64 < b.key % 64; };
  const ComparatorOrder<Pair, decltype(by_low_bits)> order(by_low_bits);
  for (const std::size_t count : {0u, 1u, 2u, 3u, 100u, 5000u}) {
    const RecordList list = test::make_records(test::Shape::kRandom, 16, count, random);
    for (const std::size_t scratch : scratches(count)) {
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, scratch));
    }
  }
}

TEST(RecordSort, SaysHowMuchScratchItTakes) {
  auto random = test::test_random();
  RecordList list = test::make_records(test::Shape::kRandom, 16, 10000, random);
  std::vector<std::byte> scratch(least_sort_scratch_bytes(10000) - 1);
  RecordCollector out(16);
  EXPECT_TRUE(test::fails(
      [&] { FormatOrder(RecordFormat(16)).sort(list.bytes.data(), 10000, scratch, out); }, ENOMEM));
  EXPECT_EQ(out.list.count(), 0u);
}

}  // namespace

}  // namespace vortex
