// Sorts of what lies in several arrays, and of what is wanted once.
#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "tests/array/array_inputs.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "vortex/array_calls.h"

namespace vortex::test::sort_chunks_test { namespace {

struct Item {
  std::uint16_t price;
  std::uint32_t index;
};

// Lengths of chunks, some of them 0.
template <typename Random>
std::vector<std::size_t> random_lengths(Random& random) {
  std::vector<std::size_t> lengths(random() % 7);
  for (std::size_t& length : lengths) length = random() % 3 == 0 ? 0 : random() % 5000;
  return lengths;
}

template <typename T>
class ChunksTest : public testing::Test {};
TYPED_TEST_SUITE(ChunksTest, NumberTypes);

TYPED_TEST(ChunksTest, LikeOneArray) {
  auto random = test_random();
  for (const ArrayShape shape : kArrayShapes) {
    for (int turn = 0; turn < 6; ++turn) {
      std::vector<std::vector<TypeParam>> chunks;
      std::vector<TypeParam> expected;
      for (const std::size_t length : random_lengths(random)) {
        chunks.push_back(numbers_of<TypeParam>(shape, length, random));
        expected.insert(expected.end(), chunks.back().begin(), chunks.back().end());
      }
      const SortOptions options{.order = turn % 2 == 1 ? Order::kDescending : Order::kAscending};
      expected = sorted(expected, options.order);
      const auto given = chunks;
      if (turn < 3) {
        sort_chunks(chunks, options);
      } else {
        sort_chunks(std::list<std::span<TypeParam>>(chunks.begin(), chunks.end()), options);
      }
      std::size_t at = 0;
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        ASSERT_EQ(chunks[i].size(), given[i].size());
        ASSERT_TRUE(same_bytes(chunks[i].data(), expected.data() + at, chunks[i].size()));
        at += chunks[i].size();
      }
    }
  }
}

TEST(Chunks, RecordsByAKeyByThreads) {
  auto random = test_random();
  for (const unsigned threads : {1u, 2u, 7u}) {
    std::vector<std::vector<Item>> chunks(3);
    std::vector<Item> expected;
    const std::size_t lengths[] = {700000, 1, 2900000};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t n = 0; n < lengths[i]; ++n) {
        expected.push_back(
            {static_cast<std::uint16_t>(random()), static_cast<std::uint32_t>(expected.size())});
        chunks[i].push_back(expected.back());
      }
    }
    expected = stably_sorted_by(expected, [](const Item& item) { return item.price; });
    sort_chunks(chunks, &Item::price, {.stable = true, .threads = threads});
    std::size_t at = 0;
    for (const auto& chunk : chunks) {
      for (const Item& item : chunk) {
        ASSERT_EQ(item.index, expected[at].index) << at;
        ++at;
      }
    }
  }
}

template <typename T>
class UniqueTest : public testing::Test {};
TYPED_TEST_SUITE(UniqueTest, NumberTypes);

TYPED_TEST(UniqueTest, OneOfEachNumber) {
  auto random = test_random();
  for (const ArrayShape shape : kArrayShapes) {
    for (const std::size_t count : {0, 1, 2, 3, 40, 129, 600, 20000}) {
      const Order order = random_direction(random);
      auto numbers = numbers_of<TypeParam>(shape, static_cast<std::size_t>(count), random);
      const std::set expected(numbers.begin(), numbers.end(), before_in(order));
      const std::size_t kept = sort_unique(numbers, {.order = order});
      ASSERT_EQ(kept, expected.size()) << static_cast<int>(shape) << ", " << count;
      auto at = expected.begin();
      for (std::size_t i = 0; i < kept; ++i, ++at) ASSERT_TRUE(same_bytes(&numbers[i], &*at, 1));
    }
  }
}

TEST(Unique, TheFirstOfEqualRecordsStays) {
  auto random = test_random();
  for (const std::uint64_t prices : {1, 50, 60000}) {
    std::vector<Item> items(20000);
    std::map<std::uint16_t, std::uint32_t> expected;
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i] = {static_cast<std::uint16_t>(random() % prices), static_cast<std::uint32_t>(i)};
      expected.emplace(items[i].price, items[i].index);
    }
    // A sort of these is not stable unless that is asked for.
    std::vector<KeyValue<std::uint64_t, std::uint64_t>> pairs;
    for (const Item& item : items) pairs.push_back({item.price, item.index});
    const std::size_t kept = sort_unique(items, &Item::price);
    ASSERT_EQ(kept, expected.size());
    ASSERT_EQ(sort_unique(pairs), kept);
    std::size_t at = 0;
    for (const auto& [price, index] : expected) {
      ASSERT_EQ(items[at].price, price);
      ASSERT_EQ(items[at].index, index);
      ASSERT_EQ(pairs[at].key, price);
      ASSERT_EQ(pairs[at].value, index);
      ++at;
    }
  }
}

}  // namespace

}  // namespace vortex::test::sort_chunks_test
