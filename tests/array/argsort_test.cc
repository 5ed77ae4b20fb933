#include "vortex/array_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "sort/arrays/key_order.h"
#include "sort/arrays/place_engine.h"
#include "tests/array/array_inputs.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"

namespace vortex::test::argsort_test { namespace {

// Those around which another way begins.
std::vector<std::size_t> sizes() {
  auto sizes = small_sizes_and({127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 2049, 20000});
  if (!kShadowMemory) sizes.push_back(70001);
  return sizes;
}

std::vector<std::uint64_t> given_places(std::size_t count) {
  std::vector<std::uint64_t> places(count);
  std::iota(places.begin(), places.end(), std::uint64_t{0});
  return places;
}

// By std::stable_sort of the places.
template <typename T>
std::vector<std::uint64_t> expected_places(const std::vector<T>& keys,
                                           Order order = Order::kAscending) {
  return stably_sorted_by(
      given_places(keys.size()), [&](std::uint64_t place) { return keys[place]; }, order);
}

template <typename T>
std::vector<T> in_order(const std::vector<T>& values, const std::vector<std::uint64_t>& places) {
  std::vector<T> ordered;
  ordered.reserve(values.size());
  for (const std::uint64_t place : places) ordered.push_back(values[place]);
  return ordered;
}

template <typename T>
class ArgsortTest : public testing::Test {};
TYPED_TEST_SUITE(ArgsortTest, NumberTypes);

TYPED_TEST_OF_ONE_THREAD(ArgsortTest, LikeStableSortOfPlaces) {
  auto random = test_random();
  for (const ArrayShape shape : kArrayShapes) {
    for (const std::size_t count : sizes()) {
      const Order order = random_direction(random);
      const auto keys = numbers_of<TypeParam>(shape, count, random);
      const auto expected = expected_places(keys, order);
      const auto before = keys;
      ASSERT_EQ(argsort<std::uint64_t>(keys, {.order = order}), expected)
          << static_cast<int>(shape) << ", " << count;
      const auto narrow = argsort<std::uint32_t>(keys, {.order = order, .threads = 1});
      ASSERT_TRUE(std::equal(narrow.begin(), narrow.end(), expected.begin(), expected.end()))
          << static_cast<int>(shape) << ", " << count;
      ASSERT_TRUE(same_bytes(keys, before));
    }
  }
}

// Sinks that keep what the engine tells, for threads that share few keys.
struct PlacesOf {
  std::vector<std::uint64_t> places;

  void given() { places = given_places(places.size()); }
  void reversed() {
    given();
    std::reverse(places.begin(), places.end());
  }
  std::uint64_t* room() { return places.data(); }
  void start_words(const detail::KeyWords& words_form) { form = &words_form; }
  void words(std::size_t, std::size_t size, std::uint64_t* words) {
    for (std::size_t i = 0; i < size; ++i) words[i] = form->place(words[i]);
  }
  void start_pairs() {}
  void pairs(std::size_t begin, std::size_t size, const Pair64* pairs) {
    for (std::size_t i = 0; i < size; ++i) places[begin + i] = pairs[i].value;
  }

  const detail::KeyWords* form = nullptr;
};

template <typename T>
std::vector<std::uint64_t> places_by_engine(const std::vector<T>& keys, unsigned threads,
                                            std::size_t least_share) {
  detail::Shares shares(keys.size(), threads, least_share);
  PlacesOf sink{std::vector<std::uint64_t>(keys.size())};
  const detail::KeySource source =
      detail::keys_of_numbers(keys.data(), detail::number_form<T>(Order::kAscending));
  detail::PlaceEngine(source, shares, 1, sink).run();
  return sink.places;
}

TYPED_TEST(ArgsortTest, ByThreads) {
  auto random = test_random();
  constexpr std::size_t kCount = 9001, kShare = 500;
  for (const ArrayShape shape : kArrayShapes) {
    const auto keys = numbers_of<TypeParam>(shape, kCount, random);
    const auto expected = expected_places(keys);
    for (const unsigned threads : {1u, 2u, 7u}) {
      ASSERT_EQ(places_by_engine(keys, threads, kShare), expected)
          << static_cast<int>(shape) << ", " << threads;
    }
  }
}

// Keys in order but for one, wherever it lies: in the shares of threads, at their borders.
TEST_OF_ONE_THREAD(Argsort, OneOutOfOrder) {
  auto random = test_random();
  constexpr std::size_t kCount = 4000;
  for (const bool reversed : {false, true}) {
    for (int turn = 0; turn < 60; ++turn) {
      std::vector<std::uint64_t> keys(kCount);
      for (std::size_t i = 0; i < kCount; ++i) keys[i] = 10 * (reversed ? kCount - i : i);
      const std::size_t at = turn < 4 ? 1000 * (turn + 1) - 1 : random() % kCount;
      keys[at] = turn % 2 == 0 ? keys[at == 0 ? 1 : at - 1] : random() % (10 * kCount);
      ASSERT_EQ(places_by_engine(keys, 4, kCount / 4), expected_places(keys)) << at;
    }
  }
}

// Doubles are cut by their values where that spreads them better; the digits of short ones tell
// all.
TEST(Argsort, Doubles) {
  auto random = test_random();
  constexpr std::size_t kCount = 20000;
  std::normal_distribution<double> normal;
  for (const bool are_short : {false, true}) {
    for (const double strange : {0.0, 0.1, -0.1, 1e300, std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::quiet_NaN()}) {
      std::vector<double> keys(kCount);
      for (double& key : keys) {
        key = normal(random);
        if (are_short) key = static_cast<double>(static_cast<float>(key));
      }
      const detail::KeySource source =
          detail::keys_of_numbers(keys.data(), detail::number_form<double>(Order::kAscending));
      const detail::KeySample sample(source, kCount);
      ASSERT_TRUE(sample.are_doubles());
      ASSERT_EQ(sample.words_of_doubles().exact(), are_short);
      // A sample does not see it.
      if (strange != 0) keys[kCount - 1] = strange;
      for (const Order order : {Order::kAscending, Order::kDescending}) {
        ASSERT_EQ(argsort(keys, {.order = order}), expected_places(keys, order)) << strange;
      }
      // Its words give the keys back.
      std::vector<double> sorted = keys;
      std::vector<std::array<char, 9>> values(kCount);
      sort_by_key(sorted, values);
      ASSERT_TRUE(same_bytes(sorted, in_order(keys, expected_places(keys)))) << strange;
    }
  }
}

// Keys whose words are equal: a sample sees that there are many, or expects few.
TEST_OF_ONE_THREAD(Argsort, TiesThatASampleSeesAndDoesNotSee) {
  auto random = test_random();
  for (const std::size_t of_tied : {1u, 30u, 1500u, 20000u}) {
    std::vector<std::uint64_t> keys(20000);
    for (std::uint64_t& key : keys) key = random();
    keys[0] = 0;
    keys[1] = ~std::uint64_t{0};
    const std::uint64_t common = random() & ~std::uint64_t{0x3fff};
    for (std::size_t i = 0; i < of_tied; ++i)
      keys[random() % keys.size()] = common | random() % 900;
    ASSERT_EQ(argsort(keys), expected_places(keys)) << of_tied;
    ASSERT_EQ(argsort(keys, {.order = Order::kDescending}),
              expected_places(keys, Order::kDescending))
        << of_tied;
  }
}

// A sample sees neither the least key nor the greatest.
TEST_OF_ONE_THREAD(Argsort, KeysBeyondASample) {
  auto random = test_random();
  for (const std::uint64_t narrow : {std::uint64_t{1} << 20, std::uint64_t{1} << 60}) {
    for (const std::size_t at : {7u, 4500u, 8999u}) {
      for (const std::uint64_t outlier : {std::uint64_t{0}, ~std::uint64_t{0}}) {
        std::vector<std::uint64_t> keys(9000);
        for (std::uint64_t& key : keys) key = (std::uint64_t{3} << 61) + random() % narrow;
        keys[at] = outlier;
        ASSERT_EQ(argsort(keys), expected_places(keys)) << at;
        ASSERT_EQ(places_by_engine(keys, 7, 500), expected_places(keys)) << at;
      }
    }
  }
}

// So many that the call itself uses threads.
TEST(Argsort, Large) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer makes it too slow";
  auto random = test_random();
  const auto keys = numbers_of<double>(ArrayShape::kUniform, (std::size_t{1} << 21) + 77, random);
  const auto expected = expected_places(keys);
  for (const unsigned threads : {1u, 2u, 7u}) {
    ASSERT_EQ(argsort<std::uint64_t>(keys, {.threads = threads}), expected);
  }
}

struct Item {
  char name[6];
  std::int16_t price;
  float weight;
};

TEST_OF_ONE_THREAD(Argsort, RecordsByMemberAndByFunction) {
  auto random = test_random();
  std::vector<Item> items(3000);
  std::vector<std::int16_t> prices;
  std::vector<float> weights;
  for (Item& item : items) {
    item.price = static_cast<std::int16_t>(random() % 100 - 50);
    item.weight = static_cast<float>(random() % 1000) / 8;
    prices.push_back(item.price);
    weights.push_back(-item.weight);
  }
  EXPECT_EQ(argsort(items, &Item::price, {.order = Order::kDescending}),
            expected_places(prices, Order::kDescending));
  EXPECT_EQ(argsort(items, [](const Item& item) { return -item.weight; }),
            expected_places(weights));
  const int few[] = {3, 1, 2};
  EXPECT_EQ(argsort<std::int32_t>(few), (std::vector<std::int32_t>{1, 2, 0}));
}

TEST_OF_ONE_THREAD(Argsort, RoomThatIsTooSmallOrLarger) {
  const std::vector<int> keys = {5, 4, 6};
  std::vector<std::uint32_t> places(2, 9);
  EXPECT_THROW(argsort_into(std::span<const int>(keys), std::span(places)), std::invalid_argument);
  places.assign(4, 9);
  argsort_into(keys, places);
  EXPECT_EQ(places, (std::vector<std::uint32_t>{1, 0, 2, 9}));
  argsort_into(
      keys, [](int key) { return -key; }, places);
  EXPECT_EQ(places, (std::vector<std::uint32_t>{2, 0, 1, 9}));
  const auto text_of = [](std::size_t place) { return std::string_view("cab").substr(place, 1); };
  argsort_strings_into(3, text_of, places);
  EXPECT_EQ(places, (std::vector<std::uint32_t>{1, 2, 0, 9}));
}

// Nothing is read or written before the count is looked at, so the arrays need not be there.
TEST_OF_ONE_THREAD(Argsort, MorePlacesThanTheirTypeCanTell) {
  const std::size_t most = std::size_t{1} << 31;
  const auto* const keys = reinterpret_cast<const std::uint8_t*>(64);
  auto* const places = reinterpret_cast<std::int32_t*>(64);
  EXPECT_THROW(argsort_into(std::span(keys, most + 1), std::span(places, most + 1)),
               std::invalid_argument);
  auto* const unsigned_places = reinterpret_cast<std::uint32_t*>(64);
  EXPECT_THROW(
      argsort_into(std::span(keys, 2 * most + 1), std::span(unsigned_places, 2 * most + 1)),
      std::invalid_argument);
}

template <typename T>
class SortByKeyTest : public testing::Test {};
TYPED_TEST_SUITE(SortByKeyTest, NumberTypes);

struct Wide {
  std::uint32_t part[25];
  bool operator==(const Wide&) const = default;
};
struct Odd {
  std::array<std::uint8_t, 3> part;
  bool operator==(const Odd&) const = default;
};

// Values that are carried with their keys, and values that are fetched: the latter of all sizes.
TYPED_TEST_OF_ONE_THREAD(SortByKeyTest, ValuesFollowTheirKeys) {
  auto random = test_random();
  for (const ArrayShape shape : kArrayShapes) {
    for (const std::size_t count : sizes()) {
      const Order order = random_direction(random);
      const auto given = numbers_of<TypeParam>(shape, count, random);
      const auto places = expected_places(given, order);
      const SortOptions options{.order = order};
      const auto expected_keys = in_order(given, places);
      std::vector<std::uint32_t> numbers(count);
      for (auto& number : numbers) number = static_cast<std::uint32_t>(random());
      const std::vector<std::uint16_t> shorts(numbers.begin(), numbers.end());
      const std::vector<std::uint8_t> bytes(numbers.begin(), numbers.end());
      const std::vector<double> doubles(numbers.begin(), numbers.end());
      {
        auto keys = given;
        auto one = numbers;
        auto two = shorts;
        auto three = bytes;
        sort_by_key(options, keys, three, one, two);
        ASSERT_TRUE(same_bytes(keys, expected_keys)) << static_cast<int>(shape) << ", " << count;
        ASSERT_EQ(one, in_order(numbers, places)) << static_cast<int>(shape) << ", " << count;
        ASSERT_EQ(two, in_order(shorts, places));
        ASSERT_EQ(three, in_order(bytes, places));
      }
      std::vector<Wide> wide(count);
      std::vector<Odd> odd(count);
      for (std::size_t i = 0; i < count; ++i) {
        wide[i].part[0] = wide[i].part[24] = numbers[i];
        odd[i] = {{1, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)}};
      }
      auto keys = given;
      auto moved_wide = wide;
      auto moved_odd = odd;
      auto moved_doubles = doubles;
      sort_by_key(options, keys, std::span(moved_odd), moved_wide, moved_doubles);
      ASSERT_TRUE(same_bytes(keys, expected_keys)) << static_cast<int>(shape) << ", " << count;
      ASSERT_EQ(moved_wide, in_order(wide, places)) << static_cast<int>(shape) << ", " << count;
      ASSERT_EQ(moved_odd, in_order(odd, places));
      ASSERT_EQ(moved_doubles, in_order(doubles, places));
    }
  }
}

// All take part in each pass over the keys and the values, whatever becomes of them.
TYPED_TEST(SortByKeyTest, ByAllThreads) {
  auto random = test_random();
  constexpr std::size_t kCount = 6001;
  const ArrayShape many = kArrayShapes[random() % std::size(kArrayShapes)];
  for (const ArrayShape shape : kArrayShapes) {
    const auto given = numbers_of<TypeParam>(shape, kCount, random);
    const auto form = detail::number_form<TypeParam>(Order::kAscending);
    const auto places = expected_places(given);
    const auto expected_keys = in_order(given, places);
    std::vector<std::uint32_t> numbers(kCount);
    std::vector<Odd> odd(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      numbers[i] = static_cast<std::uint32_t>(random());
      odd[i] = {{1, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)}};
    }
    for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
      // Many take long to wait for each other.
      if (threads > (shape != many ? 7U : kShadowMemory ? 16U : 128U)) break;
      SCOPED_TRACE(testing::Message() << threads << ", " << static_cast<int>(shape));
      const auto expect_all = [&](const CountedShares& shares, std::size_t least) {
        ASSERT_GE(shares.took_part().size(), least);
        ASSERT_EQ(shares.took_part(), std::vector<std::size_t>(shares.took_part().size(), threads));
      };
      auto keys = given;
      auto carried = numbers;
      CountedShares first(kCount, threads);
      const detail::Column one = {carried.data(), sizeof carried[0]};
      detail::sort_by_key(keys.data(), form, std::span(&one, 1), first, 1);
      ASSERT_TRUE(same_bytes(keys, expected_keys));
      ASSERT_EQ(carried, in_order(numbers, places));
      ASSERT_NO_FATAL_FAILURE(expect_all(first, 2));

      keys = given;
      auto fetched = numbers;
      auto moved = odd;
      CountedShares second(kCount, threads);
      const detail::Column both[] = {{fetched.data(), sizeof fetched[0]}, {moved.data(), 3}};
      detail::sort_by_key(keys.data(), form, both, second, 1);
      ASSERT_TRUE(same_bytes(keys, expected_keys));
      ASSERT_EQ(fetched, in_order(numbers, places));
      ASSERT_EQ(moved, in_order(odd, places));
      // One looks for their order alone, as far as they are in it.
      const bool in_slices = threads == 1;
      ASSERT_NO_FATAL_FAILURE(expect_all(second, in_slices ? 0 : 1));

      std::vector<std::uint64_t> found(kCount);
      CountedShares third(kCount, threads);
      detail::argsort_64(detail::keys_of_numbers(given.data(), form), found.data(), third, 1);
      ASSERT_EQ(found, places);
      ASSERT_NO_FATAL_FAILURE(expect_all(third, in_slices ? 0 : 1));
    }
  }
}

TEST(SortByKey, Large) {
  auto random = test_random();
  // Pairs of 16 bytes pay for two threads from 2^20 on.
  const std::size_t count = (std::size_t{1} << (kShadowMemory ? 20 : 21)) + 5;
  const auto given = numbers_of<std::uint64_t>(ArrayShape::kUniform, count, random);
  const auto places = expected_places(given);
  for (const unsigned threads : {2u, 7u}) {
    auto keys = given;
    std::vector<std::uint64_t> first = given_places(count), second = first;
    sort_by_key({.threads = threads}, keys, first);
    ASSERT_EQ(first, places);
    keys = given;
    first = given_places(count);
    sort_by_key({.threads = threads}, keys, first, second);
    ASSERT_EQ(first, places);
    ASSERT_EQ(second, places);
    ASSERT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  }
}

// Values of 8 bytes whose type has an alignment of 4.
struct Point {
  float x, y;
  bool operator==(const Point&) const = default;
};
TEST_OF_ONE_THREAD(SortByKey, ValuesBesideAnAddressOfWords) {
  auto random = test_random();
  struct Table {
    float before;
    Point points[3000];
  };
  static_assert(offsetof(Table, points) % 8 == 4);
  const auto table = std::make_unique<Table>();
  std::vector<std::uint64_t> keys(std::size(table->points));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = random() % 500;
    table->points[i] = {static_cast<float>(keys[i]), static_cast<float>(i)};
  }
  const auto places = expected_places(keys);
  const std::vector<Point> given(std::begin(table->points), std::end(table->points));
  sort_by_key(keys, table->points);
  const std::vector<Point> found(std::begin(table->points), std::end(table->points));
  EXPECT_EQ(found, in_order(given, places));
}

TEST_OF_ONE_THREAD(SortByKey, ArraysOfDifferentLengthsAreRefused) {
  std::vector<int> keys = {2, 1}, values = {1};
  EXPECT_THROW(sort_by_key(keys, values), std::invalid_argument);
  EXPECT_EQ(keys, (std::vector<int>{2, 1}));
  std::vector<std::string_view> names = {"two", "one"};
  sort_by_key(keys, names);
  EXPECT_EQ(names[0], "one");
}

// Keys that repeat as often as a sample would look at them.
TEST(Argsort, KeysOfASampleDoNotLineUp) {
  std::vector<std::uint64_t> keys(std::size_t{1} << 18);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i % 256 * 1000;
  const detail::KeySample sample(
      detail::keys_of_numbers(keys.data(), detail::number_form<std::uint64_t>(Order::kAscending)),
      keys.size());
  EXPECT_EQ(sample.likely_range().low, 0U);
  EXPECT_GE(sample.likely_range().high, 255'000U);
}

}  // namespace

}  // namespace vortex::test::argsort_test
