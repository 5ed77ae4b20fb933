// Sorts of structs by members and by functions, of every size, place and alignment, against
// std::stable_sort: records with equal keys keep their order, so every byte is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/array/instruction_sets.h"
#include "tests/array/number_order.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "vortex/array_calls.h"
#include "vortex/record_order.h"
#include "vortex/sort.h"

namespace vortex::struct_sort_test { namespace {

enum class Colour : std::uint8_t { kRed, kBlue = 200 };
enum class Level : std::int32_t { kLow = -5, kHigh = 5 };

// A key with so many bytes before it and behind it.
template <typename K, std::size_t before, std::size_t behind>
struct [[gnu::packed]] Packed {
  using Key = K;
  std::array<unsigned char, before> first;
  K key;
  std::array<unsigned char, behind> last;
};
template <typename K, std::size_t before>
struct [[gnu::packed]] Packed<K, before, 0> {
  using Key = K;
  std::array<unsigned char, before> first;
  K key;
};
template <typename K, std::size_t behind>
struct [[gnu::packed]] Packed<K, 0, behind> {
  using Key = K;
  K key;
  std::array<unsigned char, behind> last;
};
template <typename K>
struct [[gnu::packed]] Packed<K, 0, 0> {
  using Key = K;
  K key;
};

enum class Keys {
  kUniform,
  kFew,
  kEqual,
  kSorted,
  kReversed,
  kLowBits,
  kTwoClusters,
  kOneBitApart,
  kRepeated
};
constexpr Keys kAllKeys[] = {Keys::kUniform,     Keys::kFew,         Keys::kEqual,
                             Keys::kSorted,      Keys::kReversed,    Keys::kLowBits,
                             Keys::kTwoClusters, Keys::kOneBitApart, Keys::kRepeated};

// Such bits as the upper part of a word has, for keys that are shorter.
std::uint64_t word_of(Keys keys, std::size_t i, std::size_t count, std::mt19937_64& random) {
  const std::uint64_t word = random();
  switch (keys) {
    case Keys::kUniform:
      return word;
    case Keys::kFew:
      return word % 5 * 0x3333333333333333;
    case Keys::kEqual:
      return 42;
    case Keys::kSorted:
      return i * (std::numeric_limits<std::uint64_t>::max() / (count + 1));
    case Keys::kReversed:
      return (count - i) * (std::numeric_limits<std::uint64_t>::max() / (count + 1));
    case Keys::kLowBits:
      return 0x123456789abcd000 | word % 64;
    case Keys::kTwoClusters:  // so far apart, and so close in each, that no word holds the
                              // difference
      return word << 63 | word >> 50;
    case Keys::kOneBitApart:
      return std::uint64_t{1} << word % 64;
    case Keys::kRepeated:  // some equal, some apart in bits that a word has no room for
      return word % 97 * (std::numeric_limits<std::uint64_t>::max() / 97) + (word >> 32) % 3;
  }
  return 0;
}

template <typename K>
K key_of_word(std::uint64_t word) {
  if constexpr (std::is_same_v<K, bool>) {
    return word % 3 == 0;
  } else {
    if (std::is_floating_point_v<K> && word % 16 == 0) {
      constexpr double kSpecial[] = {0.0, -0.0, std::numeric_limits<double>::infinity(),
                                     -std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN()};
      return static_cast<K>(kSpecial[word / 16 % std::size(kSpecial)]);
    }
    // The bits that tell keys apart are high in some distributions and low in others.
    word = sizeof(K) < 8 ? word >> (64 - 8 * sizeof(K)) ^ word : word;
    K key;
    std::memcpy(&key, &word, sizeof key);
    return key;
  }
}

// Records whose other bytes are random, or tell their places where there is room.
template <typename T>
std::vector<T> make_records(Keys keys, std::size_t count, std::mt19937_64& random) {
  std::vector<T> records(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::array<unsigned char, sizeof(T)> bytes;
    for (std::size_t at = 0; at < sizeof(T); ++at) {
      bytes[at] = static_cast<unsigned char>(i >> 8 * (at % 4));
    }
    std::memcpy(static_cast<void*>(&records[i]), bytes.data(), sizeof(T));
    records[i].key = key_of_word<typename T::Key>(word_of(keys, i, count, random));
  }
  return records;
}

template <typename T>
auto key_of(const T& record) noexcept {
  return record.key;
}

// `known`: what the oracle sorts by.
template <typename T, typename KeyFunction, typename Known>
void expect_like_stable_sort(const std::vector<T>& records, KeyFunction key, Known known,
                             const SortOptions& options, std::size_t misplaced = 0) {
  const auto expected = test::stably_sorted_by(records, known, options.order);
  const std::size_t bytes = records.size() * sizeof(T);
  std::vector<std::byte> memory(bytes + misplaced + 1);
  std::byte* const begin = memory.data() + misplaced;
  if (bytes != 0) std::memcpy(begin, static_cast<const void*>(records.data()), bytes);
  vortex::sort(std::span<T>(reinterpret_cast<T*>(begin), records.size()), key, options);
  ASSERT_TRUE(test::same_bytes(reinterpret_cast<const T*>(begin), expected.data(), records.size()))
      << records.size() << " records of " << sizeof(T) << " bytes";
}

// By a member and by a function.
template <typename T>
void expect_like_stable_sort(const std::vector<T>& records, const SortOptions& options,
                             std::size_t misplaced = 0) {
  const auto function = [](const T& record) noexcept { return key_of(record); };
  ASSERT_NO_FATAL_FAILURE(expect_like_stable_sort(records, &T::key, function, options, misplaced));
  ASSERT_NO_FATAL_FAILURE(expect_like_stable_sort(records, function, function, options, misplaced));
}

// Around each size where another way begins.
template <typename T>
std::vector<std::size_t> sizes() {
  const std::size_t cached = std::min<std::size_t>((std::size_t{512} << 10) / sizeof(T), 55296);
  return {0, 1, 2, 8, 9, 63, 128, 129, 1000, cached, cached + 1};
}

template <typename T>
class StructSortTest : public testing::Test {};
using Structs = test::TypesOf<
    testing::Types<
        // One word, or two, and the key anywhere in them.
        Packed<std::uint64_t, 0, 0>, Packed<double, 0, 0>, Packed<std::uint32_t, 0, 0>,
        Packed<std::int16_t, 0, 0>, Packed<bool, 0, 0>, Packed<std::uint32_t, 0, 4>,
        Packed<float, 4, 0>, Packed<Level, 1, 3>, Packed<std::int16_t, 6, 0>, Packed<char, 3, 4>,
        Packed<std::uint16_t, 0, 2>, Packed<Colour, 2, 1>, Packed<std::uint64_t, 0, 8>,
        Packed<std::int64_t, 8, 0>, Packed<double, 3, 5>, Packed<std::uint32_t, 0, 12>,
        Packed<float, 12, 0>, Packed<std::int32_t, 6, 6>, Packed<std::int8_t, 15, 0>,
        Packed<bool, 7, 8>,
        // Others that the library has code for, and some that it has none for.
        Packed<std::int8_t, 1, 0>, Packed<std::uint64_t, 3, 1>, Packed<double, 0, 16>,
        Packed<std::int64_t, 16, 8>, Packed<float, 5, 39>, Packed<std::uint64_t, 92, 0>,
        Packed<std::int32_t, 1, 0>, Packed<std::uint16_t, 1, 0>, Packed<std::int64_t, 3, 189>,
        Packed<float, 90, 206>>,
    testing::Types<Packed<double, 0, 0>, Packed<bool, 0, 0>, Packed<float, 4, 0>,
                   Packed<std::int32_t, 6, 6>, Packed<double, 0, 16>, Packed<float, 5, 39>,
                   Packed<std::uint64_t, 92, 0>, Packed<std::uint16_t, 1, 0>>>;
TYPED_TEST_SUITE(StructSortTest, Structs);

TYPED_TEST_OF_ONE_THREAD(StructSortTest, ByAMemberAndByAFunction) {
  auto random = test::test_random();
  for (const std::size_t count : sizes<TypeParam>()) {
    for (const Keys keys : kAllKeys) {
      const bool large = count > 1000;
      if (large && keys != Keys::kUniform && keys != Keys::kTwoClusters) continue;
      const auto records = make_records<TypeParam>(keys, count, random);
      const SortOptions options{.order = test::random_direction(random), .threads = 1};
      const std::size_t misplaced = random() % 2 * (random() % 8);
      SCOPED_TRACE(testing::Message()
                   << "keys " << static_cast<int>(keys) << ", misplaced by " << misplaced);
      ASSERT_NO_FATAL_FAILURE(expect_like_stable_sort(records, options, misplaced));
    }
  }
}

// With every set of instructions.
TEST_OF_ONE_THREAD(StructSort, ByAllKernels) {
  auto random = test::test_random();
  test::for_each_isa([&] {
    const auto check = [&]<typename T>(T) {
      for (const std::size_t count : {20u, 40u, 70u, 128u, 5000u, 33000u}) {
        for (const Keys keys : {Keys::kUniform, Keys::kTwoClusters, Keys::kFew}) {
          ASSERT_NO_FATAL_FAILURE(expect_like_stable_sort(make_records<T>(keys, count, random),
                                                          &T::key, key_of<T>, {}));
        }
      }
    };
    check(Packed<std::uint32_t, 4, 0>{});
    check(Packed<double, 8, 0>{});
    check(Packed<std::uint64_t, 8, 8>{});
  });
}

// So many that threads share them.
TEST(StructSort, ByThreads) {
  auto random = test::test_random();
  const auto check = [&]<typename T>(T, std::size_t count) {
    const auto records = make_records<T>(Keys::kUniform, count, random);
    for (const unsigned threads : test::some_of({1u, 2u, 7u}, 2, random)) {
      ASSERT_NO_FATAL_FAILURE(expect_like_stable_sort(records, {.threads = threads}));
    }
  };
  for (const int type : test::some_of({0, 1, 2}, 1, random)) {
    if (type == 0) check(Packed<std::uint32_t, 8, 4>{}, (std::size_t{1} << 20) + 5);
    if (type == 1) check(Packed<std::uint32_t, 4, 0>{}, (std::size_t{1} << 21) + 5);
    if (type == 2) check(Packed<std::uint64_t, 8, 8>{}, (std::size_t{1} << 20) + 5);
  }
}

struct Sale {
  std::int32_t shop;
  float price;
  std::uint64_t time;
  std::uint8_t kind;
};

// Several numbers: of 8 bytes together, of fewer, of more.
TEST_OF_ONE_THREAD(StructSort, ByTuples) {
  auto random = test::test_random();
  for (const std::size_t count : {0u, 5u, 100u, 3000u, 30000u}) {
    std::vector<Sale> sales(count);
    for (Sale& sale : sales) {
      std::memset(static_cast<void*>(&sale), 0, sizeof sale);
      sale.shop = static_cast<std::int32_t>(random() % 7) - 3;
      sale.price = static_cast<float>(static_cast<int>(random() % 9) - 4);
      sale.time = random() % 3 << 40;
      sale.kind = static_cast<std::uint8_t>(random());
    }
    for (const Order order : {Order::kAscending, Order::kDescending}) {
      const SortOptions options{.order = order};
      const auto check = [&](auto key) { expect_like_stable_sort(sales, key, key, options); };
      check([](const Sale& sale) { return std::tuple(sale.shop, sale.price); });
      check([](const Sale& sale) { return std::pair(sale.kind, sale.shop); });
      check([](const Sale& sale) { return std::tie(sale.price, sale.kind, sale.shop); });
      check([](const Sale& sale) { return std::tuple(sale.time); });
      check([](const Sale& sale) { return std::array{sale.shop, -sale.shop}; });
      check([](const Sale& sale) { return std::tuple(sale.shop, sale.time, sale.price); });
    }
  }
}

TEST_OF_ONE_THREAD(StructSort, PairsOfHalvesStably) {
  auto random = test::test_random();
  using Pair = KeyValue<std::int32_t, std::uint32_t>;
  for (const std::size_t count : {100u, 60000u}) {
    std::vector<Pair> pairs(count);
    for (std::size_t i = 0; i < count; ++i) {
      pairs[i] = {static_cast<std::int32_t>(random() % 100) - 50, static_cast<std::uint32_t>(i)};
    }
    std::shuffle(pairs.begin(), pairs.end(), random);
    const auto expected = test::stably_sorted_by(pairs, key_of<Pair>);
    vortex::sort(pairs, {.stable = true});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(pairs[i].value, expected[i].value) << i;
  }
}

// Records that want an address of their own, as vectors of a processor do, given to a function.
struct alignas(32) Vector {
  std::uint64_t key;
  std::uint64_t place[3];
};
TEST_OF_ONE_THREAD(StructSort, FunctionsSeeRecordsAtAddressesThatSuitThem) {
  auto random = test::test_random();
  for (const std::size_t count : {5u, 8u, 100u, 100000u}) {
    std::vector<Vector> records(count);
    for (std::size_t i = 0; i < count; ++i) records[i] = {random() % (count / 2), {i, i, i}};
    const auto expected = test::stably_sorted_by(records, key_of<Vector>);
    std::atomic<std::size_t> misplaced = 0;
    vortex::sort(records, [&](const Vector& record) {
      if (reinterpret_cast<std::uintptr_t>(&record) % alignof(Vector) != 0) ++misplaced;
      return record.key;
    });
    EXPECT_EQ(misplaced, 0u);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(records[i].place[2], expected[i].place[2]) << i;
  }
}

// Pairs that words of their size would not suit.
TEST_OF_ONE_THREAD(StructSort, PairsBesideAnAddressOfWords) {
  auto random = test::test_random();
  using Pair = KeyValue<std::int32_t, std::uint32_t>;
  struct Table {
    std::uint32_t before;
    Pair pairs[5000];
  };
  static_assert(offsetof(Table, pairs) % 8 == 4);
  const auto table = std::make_unique<Table>();
  for (Pair& pair : table->pairs) {
    const auto key = static_cast<std::int32_t>(random());
    pair = {key, static_cast<std::uint32_t>(key)};
  }
  const auto expected = test::stably_sorted_by(
      std::vector<Pair>(std::begin(table->pairs), std::end(table->pairs)), key_of<Pair>);
  vortex::sort(table->pairs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(table->pairs[i].key, expected[i].key) << i;
    ASSERT_EQ(table->pairs[i].value, static_cast<std::uint32_t>(expected[i].key)) << i;
  }
}

// Members at addresses that their type does not have, as a sanitizer of undefined behaviour sees:
// no call refers to one.
TEST_OF_ONE_THREAD(StructSort, PackedMembersInOtherCalls) {
  auto random = test::test_random();
  using T = Packed<double, 3, 5>;
  const auto records = make_records<T>(Keys::kUniform, 3000, random);
  const auto expected = test::stably_sorted_by(records, key_of<T>);
  const auto places = argsort(records, &T::key);
  for (std::size_t i = 0; i < records.size(); ++i)
    ASSERT_TRUE(test::same_bytes(&records[places[i]], &expected[i], 1)) << i;
  auto first = records;
  partial_sort(first, 40, &T::key);
  EXPECT_TRUE(test::same_bytes(first.data(), expected.data(), 40));
  select(first, 2000, &T::key);
  EXPECT_TRUE(ByKey(&T::key)(first[0], first[2999]));
  EXPECT_FALSE(ByKey(&T::key)(first[2999], first[2000]));
  auto unique = expected;
  unique.push_back(expected[7]);
  EXPECT_EQ(sort_unique(unique, &T::key), sort_unique(first, key_of<T>));
}

TEST_OF_ONE_THREAD(StructSort, Enumerations) {
  auto random = test::test_random();
  std::vector<Level> levels(3000);
  for (Level& level : levels) level = static_cast<Level>(static_cast<int>(random() % 11) - 5);
  const auto expected = test::sorted(levels);
  vortex::sort(levels);
  EXPECT_EQ(levels, expected);
}

// The member of a class that the record derives from.
struct Base {
  std::uint32_t first;
  std::uint32_t key;
};
struct Derived : Base {
  std::uint32_t place;
  std::uint32_t more;
};

TEST_OF_ONE_THREAD(StructSort, ByAnInheritedMember) {
  auto random = test::test_random();
  std::vector<Derived> records(3000);
  for (std::uint32_t i = 0; i < records.size(); ++i) {
    records[i].first = static_cast<std::uint32_t>(random());
    records[i].key = static_cast<std::uint32_t>(random() % 1000);
    records[i].place = i;
    records[i].more = 0;
  }
  const auto expected = test::stably_sorted_by(records, key_of<Derived>);
  vortex::sort(records, &Derived::key);
  for (std::size_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(records[i].place, expected[i].place) << i;
    ASSERT_EQ(records[i].first, expected[i].first) << i;
  }
}

}  // namespace

}  // namespace vortex::struct_sort_test
