#include "vortex/array_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sort/arrays/least_keys.h"
#include "sort/arrays/nth_key.h"
#include "sort/arrays/row_moves.h"
#include "tests/array/array_inputs.h"
#include "tests/array/instruction_sets.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"

namespace vortex::test::select_test { namespace {

std::vector<std::size_t> sizes() {
  auto sizes = small_sizes_and({511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 2100, 20000});
  if (!kShadowMemory) sizes.push_back((std::size_t{1} << 18) + 3);
  return sizes;
}

// Some places of an array: the ends, the middle, and others.
template <typename Random>
std::vector<std::size_t> some_places(std::size_t count, Random& random) {
  if (count == 0) return {0, 1};
  return {0, count - 1, count / 2, random() % count, random() % count, random() % (count / 64 + 1)};
}

template <typename T>
class SelectTest : public testing::Test {};
TYPED_TEST_SUITE(SelectTest, NumberTypes);

// Calls body(numbers, places, order) with arrays of all shapes and sizes, and with places of
// theirs.
template <typename T, typename Body>
void for_each_array(const Body& body) {
  auto random = test_random();
  for (const ArrayShape shape : kArrayShapes) {
    for (const std::size_t count : sizes()) {
      // The large ones with some shapes only, and half of the places, to save time.
      const bool large = count > 30000;
      if (large && shape != ArrayShape::kUniform && shape != ArrayShape::kZipf) continue;
      SCOPED_TRACE(testing::Message() << count << " of shape " << static_cast<int>(shape));
      auto places = some_places(count, random);
      if (large) places.resize(1 + random() % places.size());
      const Order order = random_direction(random);
      ASSERT_NO_FATAL_FAILURE(body(numbers_of<T>(shape, count, random), places, order));
    }
  }
}

TYPED_TEST_OF_ONE_THREAD(SelectTest, TheNthIsInPlace) {
  for_each_array<TypeParam>([](const auto& given, const auto& places, Order order) {
    const auto expected = sorted(given, order);
    const auto less = before_in(order);
    for (const std::size_t k : places) {
      auto numbers = given;
      select(numbers, k, {.order = order});
      if (k < given.size()) {
        ASSERT_TRUE(same_bytes(&numbers[k], &expected[k], 1)) << k;
        for (std::size_t i = 0; i < given.size(); ++i) {
          ASSERT_FALSE(i < k ? less(expected[k], numbers[i]) : less(numbers[i], expected[k]))
              << k << ", at " << i;
        }
      }
      ASSERT_TRUE(same_bytes(sorted(numbers, order), expected)) << k;
    }
  });
}

TYPED_TEST_OF_ONE_THREAD(SelectTest, TheFirstAreSorted) {
  for_each_array<TypeParam>([](const auto& given, auto places, Order order) {
    const auto expected = sorted(given, order);
    const std::size_t count = given.size();
    places.insert(places.end(), {count / 64, count / 64 + 1});
    for (const std::size_t k : places) {
      auto numbers = given;
      partial_sort(numbers, k, {.order = order});
      ASSERT_TRUE(same_bytes(numbers.data(), expected.data(), std::min(k, count))) << k;
      ASSERT_TRUE(same_bytes(sorted(numbers, order), expected)) << k;
    }
  });
}

// One that is less among others, at each place of what is compared together, by the instructions of
// each processor.
TYPED_TEST_OF_ONE_THREAD(SelectTest, TheLeastWhereverItLies) {
  constexpr std::size_t kCount = 2000;
  for_each_isa([&] {
    for (std::size_t at = 1000; at < kCount; ++at) {
      std::vector<TypeParam> numbers(kCount, TypeParam{5});
      numbers[at] = TypeParam{4};
      partial_sort(numbers, 1);
      ASSERT_EQ(numbers[0], TypeParam{4}) << at;
      ASSERT_EQ(std::count(numbers.begin(), numbers.end(), TypeParam{5}),
                static_cast<std::ptrdiff_t>(kCount - 1));
    }
  });
}

// Of one, of a few, and of more than there are processors.
constexpr unsigned kTeams[] = {1, 2, 7, 16, 64, 128};

void expect_nth(const detail::NthKey& found, const std::vector<std::uint64_t>& sorted,
                std::size_t nth) {
  ASSERT_EQ(found.bits, sorted[nth]) << nth;
  const auto first = std::lower_bound(sorted.begin(), sorted.end(), found.bits);
  ASSERT_EQ(found.less, static_cast<std::size_t>(first - sorted.begin())) << nth;
}

// With room for all keys that are likely to be gathered, and for so few that passes narrow down
// where the key is.
TYPED_TEST(SelectTest, TheNthKeyByThreads) {
  auto random = test_random();
  constexpr std::size_t kCount = 30001, kShare = 200;
  for (const ArrayShape shape : kArrayShapes) {
    SCOPED_TRACE(static_cast<int>(shape));
    const auto numbers = numbers_of<TypeParam>(shape, kCount, random);
    const auto keys =
        detail::keys_of_numbers(numbers.data(), detail::number_form<TypeParam>(Order::kAscending));
    std::vector<std::uint64_t> bits(kCount);
    keys.read(0, kCount, bits.data());
    std::sort(bits.begin(), bits.end());
    for (const unsigned threads : kTeams) {
      detail::Shares shares(kCount, threads, kShare);
      ASSERT_EQ(shares.shares(), threads);
      for (const std::size_t nth : some_places(kCount, random)) {
        for (const std::size_t room : {~std::size_t{0}, std::size_t{8192} << random() % 4}) {
          const auto found = detail::nth_key(keys, nth, sizeof(TypeParam), shares, room);
          ASSERT_NO_FATAL_FAILURE(expect_nth(found, bits, nth)) << threads << ", " << room;
        }
      }
    }
  }
}

// Keys that count how often each is read in passes, and whose sample may lie: those who ask for one
// key are told others so many times.
struct CountedKeys {
  static void read(const void* context, std::size_t begin, std::size_t count,
                   std::uint64_t* bits) noexcept {
    const auto& self = *static_cast<const CountedKeys*>(context);
    std::copy_n(self.keys.begin() + static_cast<std::ptrdiff_t>(begin), count, bits);
    if (count > 1) {
      self.passed += count;
    } else if (self.asked++ < self.lies) {
      *bits = self.lie(*bits);
    }
  }
  std::vector<std::uint64_t> keys;
  std::function<std::uint64_t(std::uint64_t)> lie = {};
  std::size_t lies = 0;
  mutable std::atomic<std::size_t> passed = 0, asked = 0;
};

constexpr std::size_t kMany = std::size_t{1} << (kShadowMemory ? 18 : 20);
// So much that few brackets hold more keys: those of a sample of fewer keys vary more.
constexpr std::size_t kRoom = kMany / (kShadowMemory ? 8 : 16) * 8;

// Places are found in so many passes each. One in 300 samples encloses another key than the wanted
// one, so that two of eight places may take a pass more; a sample is taken at the same places each
// time, so that the keys are rotated for another one.
void expect_passes(CountedKeys& keys, const std::vector<std::size_t>& places, std::size_t passes,
                   std::mt19937_64& random, std::size_t room = kRoom) {
  const std::vector<std::uint64_t> expected = sorted(keys.keys);
  std::size_t read = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    detail::Shares shares(kMany, kTeams[i % std::size(kTeams)], 1000);
    std::rotate(keys.keys.begin(),
                keys.keys.begin() + static_cast<std::ptrdiff_t>(random() % kMany), keys.keys.end());
    keys.passed = keys.asked = 0;
    const auto found = detail::nth_key({&keys, &CountedKeys::read}, places[i], 8, shares, room);
    ASSERT_NO_FATAL_FAILURE(expect_nth(found, expected, places[i]));
    read += keys.passed;
  }
  // A block may be a single key.
  EXPECT_GE(read + kMany / 8, places.size() * passes * kMany);
  EXPECT_LE(read, (places.size() * passes + places.size() / 4) * kMany);
}

// In sorted arrays the keys around the wanted one lie in one share.
TEST(NthKey, OnePassWhateverTheOrder) {
  auto random = test_random();
  CountedKeys keys{std::vector<std::uint64_t>(kMany)};
  const auto expect_one = [&](const char* what, const auto& key_of, std::size_t room = kRoom) {
    SCOPED_TRACE(what);
    for (std::size_t i = 0; i < kMany; ++i) keys.keys[i] = key_of(i);
    std::vector<std::size_t> places{0, kMany - 1, kMany / 2};
    while (places.size() < 8) places.push_back(random() % kMany);
    expect_passes(keys, places, 1, random, room);
  };
  const std::uint64_t some = random() | 1;
  expect_one("random", [&](std::size_t) { return random(); });
  expect_one("sorted", [&](std::size_t i) { return i * some % (i + 1) + i * kMany; });
  expect_one("organ pipe", [](std::size_t i) { return std::min(i, kMany - i) << 32; });
  expect_one("equal", [&](std::size_t) { return some; });
  expect_one("words", [&](std::size_t) { return random() % 65536; });
  // Few values need no room.
  expect_one(
      "bytes", [&](std::size_t) { return random() % 256; }, 1 << 16);
}

// A sample does not tell on which side of the border between many equal keys and others a place is.
TEST(NthKey, OnePassBesideManyEqualKeys) {
  auto random = test_random();
  CountedKeys keys{std::vector<std::uint64_t>(kMany)};
  for (const std::size_t values : {2, 5, 7}) {
    SCOPED_TRACE(values);
    for (const bool in_order : {false, true}) {
      for (std::size_t i = 0; i < kMany; ++i) keys.keys[i] = i * values / kMany << 40;
      const std::size_t border = static_cast<std::size_t>(
          std::upper_bound(keys.keys.begin(), keys.keys.end(), keys.keys[kMany / 3]) -
          keys.keys.begin());
      if (!in_order) std::shuffle(keys.keys.begin(), keys.keys.end(), random);
      expect_passes(keys,
                    {border - 1, border, border - 2, border + 1, border - 3, border + 2, border - 4,
                     border + 3},
                    1, random);
    }
  }
}

// Neither does a sample that is all wrong, nor one that knows nothing of most keys, lead to more
// than another pass.
TEST(NthKey, AWrongSampleCostsAPass) {
  auto random = test_random();
  CountedKeys keys{std::vector<std::uint64_t>(kMany)};
  for (std::uint64_t& key : keys.keys) key = random() | 1;
  const auto expect_two = [&](const char* what, const auto& lie) {
    SCOPED_TRACE(what);
    keys.lie = lie;
    keys.lies = 0;
    std::vector<std::size_t> places(8);
    for (std::size_t& nth : places) nth = kMany / 3 + random() % (kMany / 3);
    // The first sample, which tells where the least key is.
    expect_passes(keys, {0}, 1, random);
    keys.lies = keys.asked;
    expect_passes(keys, places, 2, random);
  };
  expect_two("less", [](std::uint64_t key) { return key >> 8; });
  expect_two("greater", [](std::uint64_t key) { return ~(key >> 8); });
  expect_two("the ends", [](std::uint64_t key) { return key % 16 < 8 ? key % 8 : ~(key % 8); });
  expect_two("two less", [](std::uint64_t key) { return key % 4 << 40; });
  expect_two("two greater", [](std::uint64_t key) { return ~(key % 4 << 40); });
  expect_two("equal", [](std::uint64_t) { return std::uint64_t{1} << 62; });
}

// A sample that is never right: it shows equal keys, and most are others.
TEST(NthKey, ASampleThatIsAlwaysWrong) {
  auto random = test_random();
  for (const std::uint64_t mask : {~std::uint64_t{0}, std::uint64_t{0xff00ff}, std::uint64_t{3}}) {
    CountedKeys keys{std::vector<std::uint64_t>(20000)};
    for (std::uint64_t& key : keys.keys) key = random() & mask;
    keys.lies = ~std::size_t{0};
    keys.lie = [&](std::uint64_t key) { return key * 977 + 5; };
    const std::vector<std::uint64_t> expected = sorted(keys.keys);
    for (const unsigned threads : kTeams) {
      detail::Shares shares(keys.keys.size(), threads, 1000);
      for (const std::size_t room : {~std::size_t{0}, std::size_t{8192}}) {
        for (const std::size_t nth : some_places(keys.keys.size(), random)) {
          keys.passed = 0;
          const auto found = detail::nth_key({&keys, &CountedKeys::read}, nth, 8, shares, room);
          ASSERT_NO_FATAL_FAILURE(expect_nth(found, expected, nth));
          EXPECT_LE(keys.passed, (3 + 8) * keys.keys.size());
        }
      }
    }
  }
}

struct Item {
  std::uint32_t index;
  float price;
  char rest[13];
};

template <typename Random>
std::vector<Item> random_items(std::size_t count, std::uint64_t prices, Random& random) {
  std::vector<Item> items(count);
  for (std::size_t i = 0; i < count; ++i) {
    items[i].index = static_cast<std::uint32_t>(i);
    items[i].price = static_cast<float>(random() % prices) / 4;
    std::memset(items[i].rest, static_cast<int>(i % 251), sizeof items[i].rest);
  }
  return items;
}

void expect_whole(std::vector<Item> items) {
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.index < b.index; });
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(items[i].index, i);
    for (const char c : items[i].rest) ASSERT_EQ(static_cast<unsigned char>(c), i % 251);
  }
}

// Few of many are the first of those with equal keys, and in their order.
TEST_OF_ONE_THREAD(Select, RecordsByTheirKeys) {
  auto random = test_random();
  for (const std::size_t count : {1, 40, 3000, 30000}) {
    for (const std::uint64_t prices : {1, 5, 1000000}) {
      const auto given = random_items(count, prices, random);
      const SortOptions options{.order = Order::kDescending};
      const auto price = [](const Item& item) { return item.price; };
      const auto expected = stably_sorted_by(given, price, options.order);
      for (const std::size_t k : some_places(count, random)) {
        auto items = given;
        select(items, k, &Item::price, options);
        ASSERT_EQ(items[k].price, expected[k].price);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(i < k ? items[i].price >= items[k].price : items[i].price <= items[k].price);
        }
        expect_whole(items);
        items = given;
        partial_sort(items, k, price, options);
        for (std::size_t i = 0; i < k; ++i) {
          ASSERT_EQ(items[i].price, expected[i].price);
          if (k <= count / 64) {
            ASSERT_EQ(items[i].index, expected[i].index);
          }
        }
        expect_whole(items);
      }
    }
  }
}

// The bound sinks all the time, or never.
TEST_OF_ONE_THREAD(Select, LeastKeysOfAllOrders) {
  auto random = test_random();
  for (const ArrayShape shape : kArrayShapes) {
    const auto numbers = numbers_of<std::uint64_t>(shape, 20000, random);
    const auto keys = detail::keys_of_numbers(
        numbers.data(), detail::number_form<std::uint64_t>(Order::kAscending));
    std::vector<Pair64> all;
    for (std::size_t i = 0; i < numbers.size(); ++i) all.push_back({numbers[i], i});
    std::sort(all.begin(), all.end(), detail::before_by_both);
    for (const std::size_t wanted : {1, 2, 700, 19999}) {
      detail::LeastKeys least(wanted);
      for (std::size_t begin = 0; begin < numbers.size(); begin += 5000)
        least.add(keys, begin, begin + 5000);
      auto found = least.finish();
      ASSERT_EQ(found.size(), wanted);
      std::sort(found.begin(), found.end(), detail::before_by_both);
      for (std::size_t i = 0; i < wanted; ++i) {
        ASSERT_EQ(found[i].key, all[i].key) << static_cast<int>(shape);
        ASSERT_EQ(found[i].value, all[i].value) << static_cast<int>(shape);
      }
    }
  }
}

// Shares that put down who took part when they end.
class NotedShares : public CountedShares {
 public:
  NotedShares(std::size_t count, unsigned threads, std::vector<std::size_t>& notes)
      : CountedShares(count, threads), notes_(notes) {}
  ~NotedShares() override { notes_.insert(notes_.end(), took_part().begin(), took_part().end()); }

 private:
  std::vector<std::size_t>& notes_;
};

// Calls call(selection, shares_of) for each number of threads. All of them have to take part in all
// that it does, `passes` at least where there are several, and its result is the same, whatever the
// threads; `most` of them.
template <typename T, typename Call>
void by_teams(const std::vector<T>& given, Order order, unsigned most, std::size_t passes,
              const Call& call) {
  std::vector<T> alone;
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    if (threads > most) break;
    SCOPED_TRACE(threads);
    auto numbers = given;
    const auto form = detail::number_form<T>(order);
    std::vector<std::size_t> took_part;
    call(detail::Selection{numbers.data(), sizeof(T), numbers.size(),
                           detail::keys_of_numbers(numbers.data(), form), &form, 1},
         [&](std::size_t count) {
           return std::make_unique<NotedShares>(count, threads, took_part);
         });
    if (threads == 1) alone = numbers;
    ASSERT_TRUE(same_bytes(numbers, alone));
    ASSERT_GE(took_part.size(), threads == 1 ? 1 : passes);
    ASSERT_EQ(took_part, std::vector<std::size_t>(took_part.size(), threads));
  }
}

TYPED_TEST(SelectTest, ByAllThreads) {
  auto random = test_random();
  constexpr std::size_t kCount = 12'001;
  const ArrayShape many = kArrayShapes[random() % std::size(kArrayShapes)];
  for (const ArrayShape shape : kArrayShapes) {
    SCOPED_TRACE(static_cast<int>(shape));
    const Order order = random_direction(random);
    const auto given = numbers_of<TypeParam>(shape, kCount, random);
    const auto expected = sorted(given, order);
    // Many take long to wait for each other.
    const unsigned most_threads = shape != many ? 7 : kShadowMemory ? 16 : 128;
    const auto expect_first = [&](const detail::Selection& all, std::size_t k) {
      const auto* const found = static_cast<const TypeParam*>(all.records);
      ASSERT_TRUE(same_bytes(found, expected.data(), k)) << k;
      ASSERT_TRUE(same_bytes(sorted(std::vector(found, found + kCount), order), expected)) << k;
    };
    // To look for the key, and to count, find and swap records; or to join the keys of several, or
    // take those in front of the last, and to move records.
    const auto passes = [&](std::size_t many_keys) {
      return shape == ArrayShape::kUniform && sizeof(TypeParam) >= 4 ? many_keys : 1;
    };
    const std::size_t k = kCount / 3 + random() % (kCount / 3);
    ASSERT_NO_FATAL_FAILURE(by_teams(
        given, order, most_threads, passes(5), [&](const auto& all, const auto& shares_of) {
          select(all, k, *shares_of(kCount));
          const auto* const found = static_cast<const TypeParam*>(all.records);
          ASSERT_TRUE(same_bytes(found + k, &expected[k], 1));
          const auto before = before_in(order);
          for (std::size_t i = 0; i < kCount; ++i)
            ASSERT_FALSE(i < k ? before(found[k], found[i]) : before(found[i], found[k])) << i;
        }));
    // Few, by the keys that each keeps, and by the last of them, and more than few.
    const std::size_t few = 1 + random() % (kCount / 64), more = kCount / 64 + random() % 5000;
    for (const std::size_t most : {few, few - 1, std::size_t{0}}) {
      const std::size_t wanted = most == 0 ? more : few;
      ASSERT_NO_FATAL_FAILURE(by_teams(given, order, most_threads, passes(most == few ? 4 : 5),
                                       [&](const auto& all, const auto& shares_of) {
                                         partial_sort(all, wanted, shares_of, most);
                                         expect_first(all, wanted);
                                       }));
    }
  }
}

// So many that the calls themselves get threads; whoever calls may have done all of it before
// another thread is there.
TEST(Select, TheCallsHaveThreads) {
  auto random = test_random();
  const auto given = numbers_of<std::uint64_t>(ArrayShape::kUniform, std::size_t{1} << 21, random);
  const auto expect_two = [&](const auto& call) {
    unsigned most = 0;
    for (int turn = 0; turn < 200 && most < 2; ++turn) {
      auto numbers = given;
      std::array<std::atomic<bool>, 2> came{};
      const auto key = [&](std::uint64_t number) {
        if (number % 1024 == 5) came[sort_thread()] = true;
        return number;
      };
      call(std::span(numbers), key);
      most = (came[0] ? 1 : 0) + (came[1] ? 1 : 0);
    }
    EXPECT_EQ(most, 2U);
  };
  const SortOptions two{.threads = 2};
  expect_two([&](auto numbers, const auto& key) { select(numbers, 1 << 20, key, two); });
  expect_two([&](auto numbers, const auto& key) { partial_sort(numbers, 1000, key, two); });
  expect_two([&](auto numbers, const auto& key) { argsort(numbers, key, two); });
  expect_two([&](auto numbers, const auto& key) { argsort<std::uint32_t>(numbers, key, two); });
}

// More of many than each thread keeps: all of them find the last, and those in front of it.
TEST(Select, ManyOfMore) {
  auto random = test_random();
  const std::size_t k = detail::kMostKeptByEach + 1, count = 64 * k;
  std::vector<KeyValue<std::uint32_t, std::uint32_t>> given(count);
  for (const std::uint64_t prices : {300, 100'000'000}) {
    for (std::size_t i = 0; i < count; ++i)
      given[i] = {static_cast<std::uint32_t>(random() % prices), static_cast<std::uint32_t>(i)};
    auto expected = given;
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.key < b.key; });
    std::vector<KeyValue<std::uint32_t, std::uint32_t>> alone;
    for (const unsigned threads : {1U, 2U}) {
      auto records = given;
      partial_sort(records, k, {.threads = threads});
      ASSERT_TRUE(same_bytes(records.data(), expected.data(), k)) << threads;
      if (threads == 1) alone = records;
      ASSERT_TRUE(same_bytes(records, alone));
    }
  }
}

// The result is the same, whatever the threads.
TEST(Select, Large) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer makes it too slow";
  auto random = test_random();
  const std::size_t count = (std::size_t{1} << 21) + 9;
  Turns turns(random, 2);
  for (const std::uint64_t prices : {300, 100000000}) {
    std::vector<KeyValue<std::uint32_t, std::uint32_t>> given(count);
    for (std::size_t i = 0; i < count; ++i)
      given[i] = {static_cast<std::uint32_t>(random() % prices), static_cast<std::uint32_t>(i)};
    for (const std::size_t k : {std::size_t{0}, std::size_t{1000}, count / 2}) {
      if (turns.leave_out()) continue;
      auto alone = given, partial = given;
      select(alone, k, {.threads = 1});
      partial_sort(partial, k, {.threads = 1});
      for (const unsigned threads : {2u, 7u}) {
        auto together = given;
        select(together, k, {.threads = threads});
        ASSERT_TRUE(same_bytes(together.data(), alone.data(), count)) << k;
        together = given;
        partial_sort(together, k, {.threads = threads});
        ASSERT_TRUE(same_bytes(together.data(), partial.data(), count)) << k;
      }
      ASSERT_TRUE(std::is_sorted(partial.begin(), partial.begin() + static_cast<long>(k),
                                 [](const auto& a, const auto& b) { return a.key < b.key; }));
    }
  }
}

void expect_jobs(const CountedShares& shares, std::size_t jobs) {
  EXPECT_EQ(shares.took_part(), std::vector<std::size_t>(jobs, shares.shares()));
}

struct Row {
  std::uint32_t key;
  std::uint32_t place;
  std::uint32_t copy;
  bool operator==(const Row&) const = default;
};

std::vector<Row> random_rows(std::size_t count, std::uint32_t keys, auto& random) {
  std::vector<Row> rows(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto key = static_cast<std::uint32_t>(random() % keys);
    rows[i] = {key, i, i * 7 + key};
  }
  return rows;
}
detail::KeySource keys_of(const std::vector<Row>& rows) {
  return {&rows, [](const void* context, std::size_t begin, std::size_t count,
                    std::uint64_t* bits) noexcept {
            const auto& all = *static_cast<const std::vector<Row>*>(context);
            for (std::size_t i = 0; i < count; ++i) bits[i] = all[begin + i].key;
          }};
}
detail::Rows rows_of(std::vector<Row>& rows) { return {rows.data(), sizeof(Row)}; }

// The result does not depend on the threads. They count, look for their parts, and swap, for those
// that are less and for those that are equal, unless there are none to be swapped.
TEST(SharedArrays, RowsAreDivided) {
  auto random = test_random();
  for (const std::uint32_t keys : {1U, 3U, 1000U, 1U << 30}) {
    const std::vector<Row> given = random_rows(20'000 + random() % 500, keys, random);
    std::vector<std::uint32_t> in_order(given.size());
    std::ranges::transform(given, in_order.begin(), &Row::key);
    std::sort(in_order.begin(), in_order.end());
    for (const std::size_t at : {std::size_t{0}, given.size() / 3, given.size() - 1}) {
      const std::uint32_t key = in_order[at];
      const auto less = static_cast<std::size_t>(
          std::lower_bound(in_order.begin(), in_order.end(), key) - in_order.begin());
      std::vector<Row> alone;
      for (const unsigned threads : kTeams) {
        std::vector<Row> rows = given;
        CountedShares shares(rows.size(), threads);
        detail::partition_rows(rows_of(rows), keys_of(rows), {key, less}, at, shares);
        ASSERT_EQ(rows[at].key, key);
        for (std::size_t i = 0; i < rows.size(); ++i)
          ASSERT_TRUE(i < at ? rows[i].key <= key : rows[i].key >= key) << i << ", " << threads;
        if (threads == 1) alone = rows;
        ASSERT_TRUE(rows == alone) << threads;
        if (threads != 1 && keys == 1000 && at == given.size() / 3) expect_jobs(shares, 8);
        std::sort(rows.begin(), rows.end(),
                  [](const Row& a, const Row& b) { return a.place < b.place; });
        ASSERT_TRUE(rows == given) << threads;
      }
    }
  }
}

// Rows of the front, from behind it, and both: gathered, noted, counted, listed, exchanged, copied.
TEST(SharedArrays, RowsAreMovedToTheFront) {
  auto random = test_random();
  for (const std::size_t front : {1, 100, 5000, 10'000}) {
    const std::vector<Row> given = random_rows(10'000, 1000, random);
    std::vector<Pair64> chosen(given.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = {random(), i};
    std::shuffle(chosen.begin(), chosen.end(), random);
    chosen.resize(front);
    std::vector<Row> alone;
    for (const unsigned threads : kTeams) {
      std::vector<Row> rows = given, room(front);
      std::vector<Pair64> pairs = chosen;
      CountedShares shares(front, threads);
      detail::move_to_front(rows_of(rows), std::span(pairs),
                            reinterpret_cast<std::byte*>(room.data()), shares);
      for (std::size_t i = 0; i < front; ++i)
        ASSERT_EQ(rows[i], given[chosen[i].value]) << i << ", " << threads;
      if (threads == 1) alone = rows;
      ASSERT_TRUE(rows == alone) << threads;
      expect_jobs(shares, front == given.size() ? 2 : 6);
      std::sort(rows.begin(), rows.end(),
                [](const Row& a, const Row& b) { return a.place < b.place; });
      ASSERT_TRUE(rows == given) << threads;
    }
  }
}

TEST(SharedArrays, RowsAreReversed) {
  auto random = test_random();
  for (const std::size_t count : {1, 2, 3, 31, 32, 1000, 1001}) {
    const std::vector<Row> given = random_rows(count, 1000, random);
    std::vector<Row> expected = given;
    std::reverse(expected.begin(), expected.end());
    for (const unsigned threads : kTeams) {
      std::vector<Row> rows = given;
      CountedShares shares(count, threads);
      rows_of(rows).reverse(shares);
      ASSERT_TRUE(rows == expected) << threads;
      expect_jobs(shares, 1);
    }
  }
}

// What several have found, each in a part, is what one finds.
TEST(SharedArrays, LeastKeysAreJoined) {
  auto random = test_random();
  for (const ArrayShape shape : kArrayShapes) {
    const auto numbers = numbers_of<std::uint64_t>(shape, 5000, random);
    const auto keys = detail::keys_of_numbers(
        numbers.data(), detail::number_form<std::uint64_t>(Order::kAscending));
    for (const std::size_t wanted : {1, 500, 4000}) {
      const auto least = [&](detail::LeastKeys& keys_of_part) {
        const auto found = keys_of_part.finish();
        std::vector<Pair64> pairs(found.begin(), found.end());
        std::sort(pairs.begin(), pairs.end(), detail::before_by_both);
        return pairs;
      };
      detail::LeastKeys alone(wanted), first(wanted), second(wanted);
      alone.add(keys, 0, numbers.size());
      const std::size_t middle = random() % (numbers.size() + 1);
      first.add(keys, 0, middle);
      second.add(keys, middle, numbers.size());
      first.add(second);
      ASSERT_TRUE(same_bytes(least(first), least(alone))) << static_cast<int>(shape);
    }
  }
}

}  // namespace

}  // namespace vortex::test::select_test
