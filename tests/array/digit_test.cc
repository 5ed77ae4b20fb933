// Where the levels of a sort split.
#include "vortex/detail/radix/digit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/random_seed.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/record/key.h"

namespace vortex::digit_test { namespace {

using namespace detail;

// The example of section 5.5, and others: the least depth, then the least variance.
TEST(Split, LeastDepthThenLeastVariance) {
  const auto splits = [](int bits) {
    std::vector<int> all;
    for (; bits > 0; bits -= all.back()) all.push_back(first_split(bits));
    return all;
  };
  EXPECT_EQ(splits(20), (std::vector<int>{7, 7, 6}));
  EXPECT_EQ(splits(8), (std::vector<int>{8}));
  EXPECT_EQ(splits(9), (std::vector<int>{5, 4}));
  EXPECT_EQ(splits(24), (std::vector<int>{8, 8, 8}));
  EXPECT_EQ(first_split(0), 0);
}

TEST(Split, BucketsFitTheAddressSpace) {
  // 2^b buckets, the array and its pool.
  EXPECT_EQ(most_split_bits(0), 8);
  EXPECT_EQ(most_split_bits((std::uint64_t{1} << 47) / 258), 8);
  EXPECT_EQ(most_split_bits((std::uint64_t{1} << 47) / 258 + 1), 7);
  EXPECT_EQ(most_split_bits(std::uint64_t{1} << 40), 6);
  EXPECT_EQ(most_split_bits(std::uint64_t{1} << 46), 0);
}

using Widths = testing::Types<std::uint32_t, std::uint64_t>;

template <typename Bits>
class ScaledDigitOf : public testing::Test {};
TYPED_TEST_SUITE(ScaledDigitOf, Widths);

template <typename Bits>
class LinearDigitOf : public testing::Test {};
TYPED_TEST_SUITE(LinearDigitOf, Widths);

template <typename Bits>
class DoublingDigitOf : public testing::Test {};
TYPED_TEST_SUITE(DoublingDigitOf, Widths);

// Buckets are numbered in the order of the keys, there are no more than `buckets`, and range_of()
// says of each which keys it holds: those and no others. `ends`: the ends of a range, too.
template <typename Bits, typename Digit>
void expect_monotone(const Digit& digit, unsigned buckets, const KeyRange<Bits>& range,
                     std::vector<Bits> keys, bool ends) {
  std::sort(keys.begin(), keys.end());
  unsigned before = 0;
  for (const Bits key : keys) {
    const unsigned bucket = digit(key);
    ASSERT_GE(bucket, before);
    ASSERT_LT(bucket, buckets);
    before = bucket;
    const auto held = digit.range_of(bucket, range);
    ASSERT_LE(held.low, key);
    ASSERT_GE(held.high, key);
    if (ends) {
      ASSERT_EQ(digit(held.low), bucket);
      ASSERT_EQ(digit(held.high), bucket);
    }
    if (held.low != range.low) {
      ASSERT_LT(digit(static_cast<Bits>(held.low - 1)), bucket);
    }
    if (held.high != range.high) {
      ASSERT_GT(digit(static_cast<Bits>(held.high + 1)), bucket);
    }
  }
}

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
    ASSERT_NO_FATAL_FAILURE(expect_monotone(digit, buckets, range, keys, true));
  }
}

// Of numbers of every scale, and behind them all that are none.
TYPED_TEST(LinearDigitOf, IsMonotoneAndKnowsItsRanges) {
  using Digit = LinearDigit<TypeParam, true>;
  using Float = typename Digit::Float;
  auto random = test::test_random();
  const KeyEncoder<TypeParam> encoder({KeyKind::kFloat, false});
  std::normal_distribution<Float> normal;
  int cut = 0;
  for (int turn = 0; turn < 500; ++turn) {
    // Too small a scale for a factor, and one whose range is infinite, come as well.
    const int most = std::numeric_limits<Float>::max_exponent;
    const int scale = static_cast<int>(random() % (2 * static_cast<unsigned>(most))) - most;
    const auto any = [&] {
      return encoder.encode(std::bit_cast<TypeParam>(std::ldexp(normal(random), scale)));
    };
    KeyRange<TypeParam> range = KeyRange<TypeParam>::none();
    std::vector<TypeParam> keys = {0, std::numeric_limits<TypeParam>::max()};
    for (int i = 0; i < 100; ++i) {
      keys.push_back(any());
      if (i < 20) range.widen(keys.back());
    }
    const auto slices = static_cast<unsigned>(3 + random() % 1020);
    const Digit digit = Digit::of(range, slices);
    if (!(digit.factor > 0)) continue;
    ++cut;
    ASSERT_LE(digit.buckets(), slices);
    ASSERT_GE(digit.buckets() + 1, std::min(slices, 50u));
    const KeyRange<TypeParam> all;
    ASSERT_NO_FATAL_FAILURE(expect_monotone(digit, digit.buckets(), all, keys, false));
    const auto exact = LinearDigit<TypeParam>::of(range, slices);
    for (const TypeParam key : keys) {
      if (key >= range.low && key <= range.high) {
        ASSERT_EQ(exact(key), digit(key));
      }
    }
  }
  EXPECT_GT(cut, 400);
  const auto infinite = std::bit_cast<TypeParam>(std::numeric_limits<Float>::infinity());
  const TypeParam zero = encoder.encode(0);
  EXPECT_EQ(Digit::of({zero, encoder.encode(infinite)}, 100).factor, 0);
  EXPECT_EQ(Digit::of({0, zero}, 100).factor, 0);
  const auto most = std::bit_cast<TypeParam>(std::numeric_limits<Float>::max());
  EXPECT_EQ(Digit::of({zero, encoder.encode(most)}, 100).factor, 0);
}

// The same of a digit made of a sample, with keys that need not lie between those of the sample.
TYPED_TEST(DoublingDigitOf, IsMonotoneAndKnowsItsRanges) {
  auto random = test::test_random();
  const auto any = [&] { return static_cast<TypeParam>(random() >> random() % 64); };
  for (int turn = 0; turn < 500; ++turn) {
    std::vector<TypeParam> sample(1 + random() % 300);
    const TypeParam offset = turn % 2 == 0 ? TypeParam{0} : any();
    for (TypeParam& key : sample) key = static_cast<TypeParam>(offset + any());
    std::sort(sample.begin(), sample.end());
    const auto most = static_cast<unsigned>(3 + random() % 254);
    const auto digit = DoublingDigit<TypeParam>::of(sample.data(), sample.size(), most);
    ASSERT_LE(digit.buckets(), most);
    const KeyRange<TypeParam> all;
    std::vector<TypeParam> keys = {all.low, all.high, static_cast<TypeParam>(digit.low + 1)};
    for (int i = 0; i < 100; ++i) keys.push_back(static_cast<TypeParam>(digit.low + any()));
    // Around the powers of two and the eighths between them.
    for (int i = 0; i < 100; ++i) {
      const TypeParam eighths = static_cast<TypeParam>(8 + random() % 8);
      const int shift = static_cast<int>(random() % std::numeric_limits<TypeParam>::digits);
      keys.push_back(static_cast<TypeParam>(digit.low + static_cast<TypeParam>(eighths << shift) -
                                            random() % 2));
    }
    ASSERT_NO_FATAL_FAILURE(expect_monotone(digit, digit.buckets(), all, keys, false));
  }
}

}  // namespace

}  // namespace vortex::digit_test
