// Sorts of what lies in several arrays, of what is wanted once, and into another array, against
// std::stable_sort: every byte is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <vector>

#include "sort/arrays/first_of_each.h"
#include "tests/array/array_inputs.h"
#include "tests/array/number_order.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "vortex/array_calls.h"
#include "vortex/sort.h"

namespace vortex::test::sort_chunks_test { namespace {

struct Item {
  std::uint16_t price;
  std::uint32_t index;
};

// Chunks that end with the expression they are made in could not be sorted.
template <typename Chunk>
struct MadeChunks {
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = Chunk;
    Chunk operator*() const { return {}; }
    Iterator& operator++() { return *this; }
    void operator++(int) {}
    bool operator==(const Iterator&) const { return true; }
  };
  Iterator begin() const { return {}; }
  Iterator end() const { return {}; }
};
static_assert(detail::ArrayChunks<MadeChunks<std::span<double>>>);
static_assert(!detail::ArrayChunks<MadeChunks<std::vector<double>>>);
static_assert(detail::ArrayChunks<std::list<std::vector<double>>&>);

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

TYPED_TEST_OF_ONE_THREAD(ChunksTest, LikeOneArray) {
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
  for (const unsigned threads : some_of({1u, 2u, 7u}, 1, random)) {
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

// Chunks that end where no word of what is copied at once does.
TYPED_TEST(ChunksTest, ByThreads) {
  auto random = test_random();
  const std::size_t count = (std::size_t{kShadowMemory ? 16 : 24} << 20) / sizeof(TypeParam) + 5;
  const std::size_t first = random() % count, second = first + random() % (count - first);
  const auto given = numbers_of<TypeParam>(ArrayShape::kUniform, count, random);
  const auto expected = sorted(given);
  for (const unsigned threads : some_of({1U, 2U, 7U, 16U, 64U, 128U}, 2, random)) {
    std::vector<std::vector<TypeParam>> chunks = {{given.data(), given.data() + first},
                                                  {},
                                                  {given.data() + first, given.data() + second},
                                                  {given.data() + second, given.data() + count}};
    sort_chunks(chunks, {.threads = threads});
    const TypeParam* at = expected.data();
    for (const auto& chunk : chunks) {
      ASSERT_TRUE(same_bytes(chunk.data(), at, chunk.size())) << threads;
      at += chunk.size();
    }
  }
}

template <typename T>
class UniqueTest : public testing::Test {};
TYPED_TEST_SUITE(UniqueTest, NumberTypes);

TYPED_TEST_OF_ONE_THREAD(UniqueTest, OneOfEachNumber) {
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

TEST_OF_ONE_THREAD(Unique, TheFirstOfEqualRecordsStays) {
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

// Two of all teams, by turns.
std::vector<unsigned> teams() {
  auto random = test_random();
  return some_of({1U, 2U, 7U, 16U, 64U, 128U}, 2, random);
}

// Blocks of few records, so that shares have several of them: in rounds, and one more.
TEST(Unique, BlocksAreKeptByAllThreads) {
  auto random = test_random();
  constexpr std::size_t kBlock = 50;
  const auto same = [](const Item& a, const Item& b) { return a.price == b.price; };
  for (const unsigned threads : teams()) {
    const std::size_t round = kBlock * threads;
    for (const std::size_t count :
         {std::size_t{1}, kBlock, round - 1, round, round + 1, 3 * round + random() % round}) {
      for (const std::uint64_t prices : {1, 3, 2000, 60000}) {
        std::vector<Item> items(count);
        for (std::size_t i = 0; i < count; ++i)
          items[i] = {static_cast<std::uint16_t>(random() % prices), static_cast<std::uint32_t>(i)};
        items = stably_sorted_by(items, [](const Item& item) { return item.price; });
        // All are different, or one is not.
        if (prices == 60000) {
          for (std::size_t i = 0; i < count; ++i) items[i].price = static_cast<std::uint16_t>(i);
          const std::size_t at = random() % count;
          if (at != 0 && random() % 2 == 0) items[at].price = items[at - 1].price;
        }
        auto expected = items;
        expected.erase(std::unique(expected.begin(), expected.end(), same), expected.end());
        const detail::CopyFirstOfEach copy = [&](std::size_t begin, std::size_t end, void* to) {
          return static_cast<std::size_t>(std::unique_copy(items.data() + begin, items.data() + end,
                                                           static_cast<Item*>(to), same) -
                                          static_cast<Item*>(to));
        };
        CountedShares shares(count, threads);
        detail::FirstOfEach first(items.data(), sizeof(Item), copy, shares,
                                  (kBlock + 1) * sizeof(Item));
        ASSERT_EQ(first.run(shares), expected.size()) << threads << ", " << count;
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(items[i].index, expected[i].index) << threads << ", " << count << ", " << i;
        const std::size_t rounds = (count + round - 1) / round + 1;
        ASSERT_EQ(shares.took_part(), std::vector<std::size_t>(rounds, threads));
      }
    }
  }
}

// So many, and so large, that the call has threads for that pass.
struct Wide {
  std::array<char, 12> name;
  std::uint32_t index;
  std::array<std::uint32_t, 124> rest;
};

template <typename T, typename Key, typename Same>
void expect_first_of_each(const std::vector<T>& given, const std::vector<T>& in_order,
                          const Key& key, const Same& same) {
  auto expected = in_order;
  expected.erase(std::unique(expected.begin(), expected.end(), same), expected.end());
  for (const unsigned threads : teams()) {
    auto records = given;
    ASSERT_EQ(sort_unique(records, key, {.threads = threads}), expected.size()) << threads;
    ASSERT_TRUE(same_bytes(records.data(), expected.data(), expected.size())) << threads;
  }
}

TEST(Unique, NumbersByThreads) {
  auto random = test_random();
  for (const ArrayShape shape : {ArrayShape::kZipf, ArrayShape::kUniform, ArrayShape::kFew}) {
    const auto given = numbers_of<std::uint32_t>(shape, (std::size_t{1} << 21) + 7, random);
    auto expected = sorted(given);
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    for (const unsigned threads : teams()) {
      auto numbers = given;
      ASSERT_EQ(sort_unique(numbers, {.threads = threads}), expected.size()) << threads;
      ASSERT_TRUE(same_bytes(numbers.data(), expected.data(), expected.size())) << threads;
    }
  }
}

TEST(Unique, RecordsByThreads) {
  auto random = test_random();
  std::vector<Wide> given((std::size_t{36} << 20) / sizeof(Wide));
  for (std::size_t i = 0; i < given.size(); ++i) {
    given[i] = {{}, static_cast<std::uint32_t>(i), {}};
    std::ranges::fill(given[i].name, 'x');
    given[i].name[9] = static_cast<char>('a' + random() % 20);
    given[i].name[1] = static_cast<char>('a' + random() % 20);
    given[i].name[5] = static_cast<char>('a' + random() % 3);
    given[i].rest.fill(given[i].index);
  }
  auto in_order = given;
  std::ranges::stable_sort(in_order, {}, &Wide::name);
  const auto same = [](const Wide& a, const Wide& b) { return a.name == b.name; };
  expect_first_of_each(given, in_order, &Wide::name, same);
  expect_first_of_each(
      given, in_order,
      [](const Wide& wide) { return std::string_view(wide.name.data(), wide.name.size()); }, same);
  expect_first_of_each(
      given, stably_sorted_by(given, [](const Wide& wide) { return wide.name[9]; }),
      [](const Wide& wide) { return wide.name[9]; },
      [](const Wide& a, const Wide& b) { return a.name[9] == b.name[9]; });
}

TEST(Unique, TheCallHasThreads) {
  for (const unsigned threads : {1U, 2U}) {
    std::vector<std::uint64_t> numbers(std::size_t{1} << 21, 7);
    TeamCounts came(threads);
    const detail::CopyFirstOfEach copy = [&](std::size_t, std::size_t, void*) {
      came.add(1);
      return std::size_t{1};
    };
    detail::keep_first_of_each(numbers.data(), 8, numbers.size(), copy, threads);
    EXPECT_EQ(came.of_threads().size(), threads);
  }
}

// ---- Into another array.

// A key behind the number of the record, so that every record is another.
template <typename K, std::size_t bytes>
struct [[gnu::packed]] Record {
  using Key = K;
  std::uint32_t index;
  K key;
  std::array<unsigned char, bytes - sizeof(K) - 4> rest;
};

// `sort` puts records into an array; `before(a, b)` is another order of theirs.
template <typename T, typename Before, typename Sort>
void expect_sorted(const std::vector<T>& records, const Before& before, const Sort& sort) {
  std::vector<T> expected = records;
  std::stable_sort(expected.begin(), expected.end(), before);
  const std::vector<T> given = records;
  // The room is larger, and what is behind stays.
  std::vector<T> out(records.size() + 1);
  const T last = out.back();
  sort(given, out);
  ASSERT_TRUE(same_bytes(out.data(), expected.data(), expected.size()));
  ASSERT_TRUE(same_bytes(&out.back(), &last, 1));
  ASSERT_TRUE(same_bytes(given.data(), records.data(), records.size()));
}

template <typename T, typename Random>
std::vector<T> records_of(ArrayShape shape, std::size_t count, Random& random) {
  std::vector<T> records(count);
  for (std::size_t i = 0; i < count; ++i) {
    records[i].index = static_cast<std::uint32_t>(i);
    records[i].key = number_of<typename T::Key>(shape, i, count, random);
    records[i].rest.fill(static_cast<unsigned char>(i));
  }
  return records;
}

template <typename T>
class SortIntoTest : public testing::Test {};
using Records =
    TypesOf<testing::Types<Record<std::uint64_t, 24>, Record<std::int16_t, 40>, Record<double, 48>,
                           Record<float, 64>, Record<std::uint64_t, 100>, Record<std::int32_t, 131>,
                           Record<std::uint64_t, 256>, Record<std::uint8_t, 700>>,
            testing::Types<Record<std::int16_t, 40>, Record<std::uint64_t, 100>,
                           Record<std::uint8_t, 700>>>;
TYPED_TEST_SUITE(SortIntoTest, Records);

TYPED_TEST(SortIntoTest, ByAMemberAndByAFunction) {
  auto random = test_random();
  using Key = typename TypeParam::Key;
  // Enough for two threads.
  const std::size_t for_threads = (std::size_t{9} << 20) / sizeof(TypeParam);
  for (const ArrayShape shape : kArrayShapes) {
    const bool many = shape == ArrayShape::kUniform || shape == ArrayShape::kReversed ||
                      shape == ArrayShape::kPrefix;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{70},
                                    5000 + random() % 3000, many ? for_threads : 4000}) {
      const auto records = records_of<TypeParam>(shape, count, random);
      const auto key_of = [](const TypeParam& record) { return Key{record.key}; };
      const SortOptions options{.order = random() % 2 == 0 ? Order::kAscending : Order::kDescending,
                                .threads = static_cast<unsigned>(1 + random() % 3)};
      const auto before = before_by(key_of, options.order);
      expect_sorted(records, before, [&](const auto& from, auto& to) {
        sort_into(from, to, &TypeParam::key, options);
      });
      expect_sorted(records, before,
                    [&](const auto& from, auto& to) { sort_into(from, to, key_of, options); });
    }
  }
}

// Without bytes of no member.
struct Named {
  std::uint64_t price;
  std::array<char, 10> name;
  std::uint16_t shop;
  std::array<std::uint32_t, 21> rest;
};

std::vector<Named> random_named(std::size_t count, std::uint64_t names) {
  auto random = test_random();
  std::vector<Named> items(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t name = random() % names * 0x9e3779b97f4a7c15;
    for (std::size_t byte = 0; byte < 10; ++byte)
      items[i].name[byte] = static_cast<char>(name >> (byte * 5 % 60));
    items[i].shop = static_cast<std::uint16_t>(random() % 5);
    items[i].price = random();
    items[i].rest.fill(static_cast<std::uint32_t>(i));
  }
  return items;
}

TEST(SortInto, ByStringsAndTuples) {
  // Some have nearly all keys in common, and the least of them are few.
  for (const std::uint64_t names : {~std::uint64_t{0}, std::uint64_t{300}, std::uint64_t{1}}) {
    for (const std::size_t count : {3, 200, 300, 5000, names == 300 ? 100000 : 9000}) {
      const auto items = random_named(count, names);
      for (const unsigned threads : {1u, 2u, 7u}) {
        const SortOptions options{.threads = threads};
        const auto by_name = [](const Named& a, const Named& b) {
          return std::string_view(a.name.data(), 10) < std::string_view(b.name.data(), 10);
        };
        expect_sorted(items, by_name, [&](const auto& from, auto& to) {
          sort_into(from, to, &Named::name, options);
        });
        expect_sorted(items, by_name, [&](const auto& from, auto& to) {
          sort_into(
              std::span(from), std::span(to),
              [](const Named& item) { return std::string_view(item.name.data(), 10); }, options);
        });
        expect_sorted(
            items,
            [](const Named& a, const Named& b) {
              return std::tuple(a.shop, a.price) < std::tuple(b.shop, b.price);
            },
            [&](const auto& from, auto& to) {
              sort_into(
                  from, to, [](const Named& item) { return std::tuple(item.shop, item.price); },
                  options);
            });
      }
    }
  }
}

TEST_OF_ONE_THREAD(SortInto, RoomThatIsTooSmall) {
  const auto items = random_named(30, 7);
  std::vector<Named> out(29);
  EXPECT_THROW(sort_into(items, out, &Named::price), std::invalid_argument);
  EXPECT_THROW(sort_into(items, out, &Named::name), std::invalid_argument);
}

}  // namespace

}  // namespace vortex::test::sort_chunks_test
