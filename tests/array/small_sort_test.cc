#include "vortex/detail/array/small_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "sort/kernels/quick_sort.h"
#include "sort/kernels/vector_sorts.h"
#include "tests/array/instruction_sets.h"
#include "tests/array/number_order.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"

namespace vortex::small_sort_test { namespace {

using namespace detail;

template <typename Record>
Record make(std::uint64_t key, std::uint64_t value) {
  if constexpr (std::is_same_v<Record, Pair64>) {
    return Pair64{key, value};
  } else {
    (void)value;
    return static_cast<Record>(key);
  }
}

bool less_by_all(const Pair64& a, const Pair64& b) {
  return a.key != b.key ? a.key < b.key : a.value < b.value;
}
bool less_by_all(std::uint64_t a, std::uint64_t b) { return a < b; }
std::uint64_t key_of(const Pair64& record) { return record.key; }
std::uint64_t key_of(std::uint64_t key) { return key; }

// Vectors sort more words, for quick_sort().
template <typename Record>
std::size_t most_records(Isa isa) {
  if (std::is_same_v<Record, Pair64> || isa == Isa::kPortable) return kMaxSmallSort;
  return isa == Isa::kAvx2 ? kMostBlocks * kBlockOfAvx2 : kBlockOfWords<Record>;
}

template <typename Record>
class SmallSortTest : public testing::Test {};
using Records = testing::Types<std::uint32_t, std::uint64_t, Pair64>;
TYPED_TEST_SUITE(SmallSortTest, Records);

TYPED_TEST(SmallSortTest, EveryCountAndInstructionSetLikeStdSort) {
  auto random = test::test_random();
  // Masks that leave many, few and one distinct keys, and keys among the largest, where padding is.
  const std::uint64_t masks[] = {~std::uint64_t{0}, 0xff, 0x3, 0, 0};
  test::for_each_isa([&] {
    const SmallSort<TypeParam> sort = small_sort_for<TypeParam>(isa_in_use());
    for (std::size_t count = 0; count <= most_records<TypeParam>(isa_in_use()); ++count) {
      for (int kind = 0; kind < 5; ++kind) {
        const std::uint64_t high = kind == 4 || kind == 2 ? ~std::uint64_t{3} : 0;
        std::vector<TypeParam> in(count);
        for (std::size_t i = 0; i < count; ++i) {
          in[i] = make<TypeParam>((random() & masks[kind]) | high, i);
        }
        // Exactly `count` long, so that address sanitizer sees a read beyond the end; the canary
        // sees a write.
        const TypeParam canary = make<TypeParam>(0x5555, 0x5555);
        std::vector<TypeParam> out(count + 1, canary);
        sort(in.data(), count, out.data());
        ASSERT_TRUE(test::same_bytes(&out[count], &canary, 1)) << count;
        out.pop_back();
        for (std::size_t i = 1; i < count; ++i) {
          ASSERT_LE(key_of(out[i - 1]), key_of(out[i])) << count;
        }
        auto by_all = [](const TypeParam& a, const TypeParam& b) { return less_by_all(a, b); };
        std::vector<TypeParam> in_place = in;
        sort(in_place.data(), count, in_place.data());
        for (auto* result : {&out, &in_place}) {
          std::vector<TypeParam> expected = in;
          std::sort(expected.begin(), expected.end(), by_all);
          std::sort(result->begin(), result->end(), by_all);
          ASSERT_TRUE(test::same_bytes(expected, *result)) << count << " records, kind " << kind;
        }
      }
    }
  });
}

template <typename Bits>
class QuickSortTest : public testing::Test {
 protected:
  // Sorts exactly so many words, so that the address sanitizer sees what lies beyond them.
  static void expect_sorted(std::vector<Bits> words, int levels) {
    std::vector<Bits> expected = words;
    std::sort(expected.begin(), expected.end());
    const Isa isa = isa_in_use();
    const std::size_t block = isa == Isa::kAvx2 ? kBlockOfAvx2 : kBlockOfWords<Bits>;
    const bool sorted = quick_sort(words.data(), words.size(), levels);
    ASSERT_EQ(sorted, isa != Isa::kPortable && (levels > 1 || words.size() <= kMostBlocks * block))
        << words.size();
    if (!sorted) std::sort(words.begin(), words.end());  // they are all there
    ASSERT_TRUE(test::same_bytes(expected, words)) << words.size() << " words";
  }
};
using Words = testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(QuickSortTest, Words);

// Blocks that are full and not, all remainders of what is cut in two at once, masks as above.
TYPED_TEST(QuickSortTest, LikeStdSort) {
  auto random = test::test_random();
  test::for_each_isa([&] {
    // Sanitizers see some of the counts, and others with another seed.
    const auto step = [&] { return 1 + (test::kShadowMemory ? random() % 8 : 0); };
    for (std::size_t count = 0; count < 20000; count += count < 1100 ? step() : 1 + count / 3) {
      for (const std::uint64_t mask : {~std::uint64_t{0}, std::uint64_t{0xff}, std::uint64_t{1}}) {
        for (const std::uint64_t high : {std::uint64_t{0}, ~mask}) {
          std::vector<TypeParam> words(count);
          for (TypeParam& word : words) word = static_cast<TypeParam>((random() & mask) | high);
          ASSERT_NO_FATAL_FAILURE(this->expect_sorted(words, quick_sort_levels(count)));
        }
      }
    }
  });
}

TYPED_TEST(QuickSortTest, EndsWhereItsLevelsDo) {
  auto random = test::test_random();
  test::for_each_isa([&] {
    for (const std::size_t count : {100, 1000, 3000}) {
      std::vector<TypeParam> words(count);
      for (TypeParam& word : words) word = static_cast<TypeParam>(random());
      ASSERT_NO_FATAL_FAILURE(this->expect_sorted(words, 1));
    }
  });
}

std::vector<Pair64> stably_sorted(const std::vector<Pair64>& pairs) {
  return test::stably_sorted_by(pairs, [](const Pair64& pair) { return pair.key; });
}

TEST(SmallSortStable, KeepsTheOrderOfEqualKeys) {
  auto random = test::test_random();
  for (std::size_t count = 0; count <= kMaxSmallSort; ++count) {
    std::vector<Pair64> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = {random() % 7, i};
    small_sort_stable(in.data(), count, out.data(), [](const Pair64& r) { return r.key; });
    ASSERT_TRUE(test::same_bytes(out, stably_sorted(in))) << count;
  }
}

// Keys so close and so far apart as words that hold a key and a place can have them, and farther.
TEST(StableSmallSortOfPairs, KeepsTheOrderOfEqualKeys) {
  auto random = test::test_random();
  test::for_each_isa([&] {
    const SmallSort<Pair64> sort = stable_small_sort_of_pairs(isa_in_use());
    for (std::size_t count = 0; count <= kMaxSmallSort; ++count) {
      for (const int bits : {1, 3, 40, 56, 57, 58, 63, 64}) {
        const std::uint64_t low = bits == 64 ? 0 : random() >> 1;
        const std::uint64_t width = ~std::uint64_t{0} >> (64 - bits);
        std::vector<Pair64> in(count);
        for (std::size_t i = 0; i < count; ++i) {
          const std::uint64_t edge = random() % 4 == 0 ? width : 0;
          in[i] = {low + ((random() % 4 == 0 ? edge + random() % 4 : random()) & width), i};
        }
        std::vector<Pair64> out(count), in_place = in;
        sort(in.data(), count, out.data());
        sort(in_place.data(), count, in_place.data());
        in = stably_sorted(in);
        ASSERT_TRUE(test::same_bytes(in, out)) << count << " pairs, keys of " << bits << " bits";
        ASSERT_TRUE(test::same_bytes(in, in_place))
            << count << " pairs, keys of " << bits << " bits";
      }
    }
  });
}

}  // namespace

}  // namespace vortex::small_sort_test
