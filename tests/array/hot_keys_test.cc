#include "vortex/detail/radix/counted_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"

namespace vortex::hot_keys_test { namespace {

using namespace detail;

using Widths = testing::Types<std::uint32_t, std::uint64_t>;

template <typename Bits>
class HotKeysOf : public testing::Test {};
TYPED_TEST_SUITE(HotKeysOf, Widths);

template <typename Bits>
class CountedKeysOf : public testing::Test {};
TYPED_TEST_SUITE(CountedKeysOf, Widths);

// In parts of chance: what lies before the keys of a part, then the part with those in it.
template <typename Bits, typename Random>
std::vector<Bits> written_in_parts(HotKeys<Bits>& hot, const std::vector<Bits>& moved,
                                   Random& random) {
  std::vector<Bits> result;
  for (std::size_t begin = 0; begin < moved.size();) {
    std::size_t end = begin + 1 + random() % (moved.size() - begin);
    while (end < moved.size() && moved[end] == moved[end - 1]) ++end;
    const std::size_t before = hot.copies_below(moved[begin]);
    result.resize(result.size() + before);
    hot.write(before, result.data() + result.size() - before);
    const std::size_t among = hot.copies_up_to(moved[end - 1]);
    const std::size_t at = result.size();
    result.insert(result.end(), moved.begin() + static_cast<std::ptrdiff_t>(begin),
                  moved.begin() + static_cast<std::ptrdiff_t>(end));
    result.resize(result.size() + among);
    hot.write_among(result.data() + at, end - begin, among);
    begin = end;
  }
  const std::size_t rest = hot.copies_up_to(std::numeric_limits<Bits>::max());
  result.resize(result.size() + rest);
  hot.write(rest, result.data() + result.size() - rest);
  return result;
}

TYPED_TEST(HotKeysOf, AreCountedAndComeBackAmongTheOthers) {
  auto random = test::test_random();
  for (int turn = 0; turn < (test::kShadowMemory ? 50 : 200); ++turn) {
    const std::size_t kinds = 1 + random() % 2000;
    const auto any = [&] {
      return static_cast<TypeParam>((random() % kinds * (random() % kinds) / kinds) *
                                    (turn % 2 == 0 ? 1 : 0x9e3779b97f4a7c15));
    };
    std::vector<TypeParam> sample(HotKeys<TypeParam>::kSample);
    for (TypeParam& key : sample) key = any();
    sample[0] = 0;
    sample[1] = std::numeric_limits<TypeParam>::max();
    std::sort(sample.begin(), sample.end());
    std::map<TypeParam, int> sampled;
    for (const TypeParam key : sample) ++sampled[key];

    auto hot = std::make_unique<HotKeys<TypeParam>>();
    std::vector<TypeParam> others = sample;
    others.resize(hot->choose(others.data(), others.size()));
    ASSERT_TRUE(std::is_sorted(others.begin(), others.end()));
    const auto is_other = [&](TypeParam key) {
      return std::binary_search(others.begin(), others.end(), key);
    };
    std::size_t frequent = 0, are_hot = 0;
    for (const auto& [key, copies] : sampled) {
      if (copies < 3) {
        ASSERT_TRUE(is_other(key)) << key << " is rare";
      } else {
        ++frequent;
        are_hot += is_other(key) ? 0 : 1;
      }
    }
    // Two of the same slot are one.
    ASSERT_GE(2 * are_hot, frequent);

    std::vector<TypeParam> keys(random() % 20000), moved;
    for (TypeParam& key : keys) key = any();
    for (const TypeParam key : keys) {
      if (!hot->count(key)) {
        moved.push_back(key);
        continue;
      }
      ASSERT_TRUE(sampled.contains(key) && !is_other(key)) << key << " is not hot";
    }
    std::sort(keys.begin(), keys.end());
    std::sort(moved.begin(), moved.end());

    ASSERT_EQ(written_in_parts(*hot, moved, random), keys);
  }
}

TYPED_TEST(HotKeysOf, NoneWhereNothingIsFrequent) {
  std::vector<TypeParam> sample(HotKeys<TypeParam>::kSample);
  for (std::size_t i = 0; i < sample.size(); ++i) sample[i] = static_cast<TypeParam>(i / 2);
  auto hot = std::make_unique<HotKeys<TypeParam>>();
  EXPECT_EQ(hot->choose(sample.data(), sample.size()), sample.size());
  EXPECT_EQ(hot->copies_up_to(std::numeric_limits<TypeParam>::max()), 0u);
}

TYPED_TEST(CountedKeysOf, LikeStdSort) {
  constexpr TypeParam kMax = std::numeric_limits<TypeParam>::max();
  auto random = test::test_random();
  std::vector<std::uint32_t> counters(CountedKeys<TypeParam>::kMaxCounters);
  for (const TypeParam span : {1u, 7u, 300u, 65535u}) {
    for (const TypeParam low :
         {TypeParam{0}, TypeParam{12345}, static_cast<TypeParam>(kMax - span)}) {
      const KeyRange<TypeParam> range{low, static_cast<TypeParam>(low + span)};
      std::vector<TypeParam> keys(span + 1 + random() % 5000);
      ASSERT_TRUE(CountedKeys<TypeParam>::suits(range, keys.size()));
      for (TypeParam& key : keys) {
        key = static_cast<TypeParam>(low + std::min<std::uint64_t>(random() % (2 * span), span));
      }
      keys[0] = range.low;
      CountedKeys<TypeParam> counted(range, counters.data());
      counted.add(keys.data(), keys.size());
      // The element behind the result stays as it is.
      std::vector<TypeParam> result(keys.size() + 1, 77);
      counted.write(result.data(), keys.size());
      EXPECT_EQ(result.back(), TypeParam{77});
      result.pop_back();
      std::sort(keys.begin(), keys.end());
      EXPECT_EQ(result, keys);
    }
  }
  EXPECT_FALSE(CountedKeys<TypeParam>::suits({0, 65536}, 1000000));
  EXPECT_FALSE(CountedKeys<TypeParam>::suits({0, 100}, 100));
  EXPECT_FALSE(CountedKeys<TypeParam>::suits({}, 1000000));
  // Counters hold 32 bits.
  EXPECT_TRUE(CountedKeys<TypeParam>::suits({0, 100}, 0xffffffff));
  EXPECT_FALSE(CountedKeys<TypeParam>::suits({0, 100}, std::size_t{1} << 32));
}

}  // namespace

}  // namespace vortex::hot_keys_test
