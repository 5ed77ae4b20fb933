#include "sort/digit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/random_seed.h"

namespace vortex {
namespace {

template <typename Bits>
class ScaledDigitOf : public testing::Test {};
using Widths = testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(ScaledDigitOf, Widths);

// Buckets are numbered in the order of the keys, there are no more than asked for, and range_of()
// says of each which keys it holds: those and no others.
TYPED_TEST(ScaledDigitOf, IsMonotoneAndKnowsItsRanges) {
  auto random = test::test_random();
  for (int turn = 0; turn < 2000; ++turn) {
    const auto any = [&] { return static_cast<TypeParam>(random() >> random() % 64); };
    KeyRange<TypeParam> range{any(), any()};
    if (turn == 0) range = {};
    if (range.low > range.high) std::swap(range.low, range.high);
    if (range.low == range.high) continue;
    const auto slices = static_cast<unsigned>(2 + random() % 510);
    const auto digit = ScaledDigit<TypeParam>::of(range, slices);
    const unsigned buckets = digit.buckets(range);
    ASSERT_LE(buckets, slices);
    std::vector<TypeParam> keys = {range.low, range.high};
    const auto span = static_cast<TypeParam>(range.high - range.low);
    for (int i = 0; i < 100; ++i) {
      const auto word = static_cast<TypeParam>(random());
      const bool whole = span == std::numeric_limits<TypeParam>::max();
      const auto at = whole ? word : static_cast<TypeParam>(word % (span + 1));
      keys.push_back(static_cast<TypeParam>(range.low + at));
    }
    std::sort(keys.begin(), keys.end());
    unsigned before = 0;
    for (const TypeParam key : keys) {
      const unsigned bucket = digit(key);
      ASSERT_GE(bucket, before);
      ASSERT_LT(bucket, buckets);
      before = bucket;
      const auto held = digit.range_of(bucket, range);
      ASSERT_LE(held.low, key);
      ASSERT_GE(held.high, key);
      // The ends are its own, their neighbours are not.
      ASSERT_EQ(digit(held.low), bucket);
      ASSERT_EQ(digit(held.high), bucket);
      if (held.low != range.low) {
        ASSERT_LT(digit(static_cast<TypeParam>(held.low - 1)), bucket);
      }
      if (held.high != range.high) {
        ASSERT_GT(digit(static_cast<TypeParam>(held.high + 1)), bucket);
      }
    }
  }
}

}  // namespace
}  // namespace vortex
