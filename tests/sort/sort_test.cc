#include "vortex/sort.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "sort/memory/cpu.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"

namespace vortex {
namespace {

enum class Keys {
  kUniform,
  kEqual,
  kFewDistinct,
  kZipf,
  kZipfRanks,
  kSorted,
  kReversed,
  kNearlySorted,
  kSharedPrefix,
  kOneHugeBucket,
  kOneBitApart,    // 2^i: adversarial for splits into equal slices
  kOutsideSample,  // all equal but a few extremes that a sample misses
};
constexpr Keys kAllKeys[] = {Keys::kUniform,       Keys::kEqual,        Keys::kFewDistinct,
                             Keys::kZipf,          Keys::kZipfRanks,    Keys::kSorted,
                             Keys::kReversed,      Keys::kNearlySorted, Keys::kSharedPrefix,
                             Keys::kOneHugeBucket, Keys::kOneBitApart,  Keys::kOutsideSample};

std::uint64_t make_key(Keys keys, std::size_t i, std::size_t count, std::mt19937_64& random) {
  const std::uint64_t word = random();
  switch (keys) {
    case Keys::kUniform:
      return word;
    case Keys::kEqual:
      return 0x0123456789abcdef;
    case Keys::kFewDistinct:
      return word % 7 * 0x1111111111111111;
    case Keys::kZipf:
    case Keys::kZipfRanks: {
      const double uniform = static_cast<double>(word >> 11) * 0x1p-53;
      const auto rank =
          static_cast<std::uint64_t>(std::exp(uniform * std::log(static_cast<double>(count + 1))));
      return keys == Keys::kZipf ? rank * 0x9e3779b97f4a7c15 : rank;
    }
    case Keys::kSorted:
      return i * 3;
    case Keys::kReversed:
      return (count - i) * 3;
    case Keys::kNearlySorted:
      return word % 50 == 0 ? word % (3 * count + 1) : i * 3;
    case Keys::kSharedPrefix:
      return 0xabcdef1234000000 | word >> 40;
    case Keys::kOneHugeBucket:
      return word % 500 == 0 ? word : 0x7700000000000000 | word >> 30;
    case Keys::kOneBitApart:
      return std::uint64_t{1} << word % 64;
    case Keys::kOutsideSample:
      return word % 5000 == 0 ? word : 0x5555;
  }
  return 0;
}

std::vector<std::size_t> sizes() {
  std::vector<std::size_t> sizes = {0,   1,   2,   3,    31,    64,    65,
                                    127, 128, 129, 1000, 24576, 24577, 70000};
  if (!test::kShadowMemory) sizes.push_back(300001);
  if (test::long_tests()) sizes.insert(sizes.end(), {5000011, 40000003});
  return sizes;
}

// Every instruction set that the processor has; the one in use is put back at the end.
template <typename Body>
void for_each_isa(Body body) {
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!use_isa(isa)) {
      std::printf("this processor has no %s: not tested\n", isa_name(isa));
      continue;
    }
    SCOPED_TRACE(isa_name(isa));
    body();
    if (testing::Test::HasFatalFailure()) break;
  }
  use_isa(best_isa());
}

template <typename T>
T from_word(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Total order of floating-point numbers by IEEE 754, independent of include/vortex/key.h.
template <typename T>
bool total_less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b) || a == b) {
      using Int = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
      Int x, y;
      std::memcpy(&x, &a, sizeof x);
      std::memcpy(&y, &b, sizeof y);
      // Sign and magnitude to two's complement.
      const Int most = std::numeric_limits<Int>::max();
      if (x < 0) x ^= most;
      if (y < 0) y ^= most;
      return x < y;
    }
  }
  return a < b;
}

template <typename T>
class SortKeysTest : public testing::Test {};
using KeyTypes = testing::Types<std::uint8_t, std::int16_t, std::uint32_t, std::int32_t, float,
                                std::uint64_t, std::int64_t, double>;
TYPED_TEST_SUITE(SortKeysTest, KeyTypes);

TYPED_TEST(SortKeysTest, EveryDistributionLikeStdSort) {
  auto random = test::test_random();
  for_each_isa([&] {
    for (const Order order : {Order::kAscending, Order::kDescending}) {
      for (const Keys keys : kAllKeys) {
        for (const std::size_t count : sizes()) {
          // The large ones with some distributions only, to save time.
          const bool thorough = keys == Keys::kUniform || keys == Keys::kZipfRanks;
          if (count > 30000 && !thorough && !test::long_tests()) continue;
          std::vector<TypeParam> values(count);
          // The high half of narrow types would be lost with the high bits of the word.
          for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t word = make_key(keys, i, count, random);
            values[i] = from_word<TypeParam>(keys == Keys::kUniform ? word : word >> (i % 2 * 8));
          }
          std::vector<TypeParam> expected = values;
          std::sort(expected.begin(), expected.end(), [order](TypeParam a, TypeParam b) {
            return order == Order::kAscending ? total_less(a, b) : total_less(b, a);
          });
          sort(std::span<TypeParam>(values), {.order = order});
          ASSERT_TRUE(count == 0 ||
                      std::memcmp(values.data(), expected.data(), count * sizeof(TypeParam)) == 0)
              << "keys " << static_cast<int>(keys) << ", " << count << " of them";
        }
      }
    }
  });
}

// Enough keys that the frequent ones are counted: a few of many, all of them, and the least and the
// greatest of all.
TYPED_TEST(SortKeysTest, FrequentKeysAmongOthers) {
  auto random = test::test_random();
  for (const std::size_t count : {70001u}) {
    for (const std::size_t frequent_keys : {3, 20, 600}) {
      std::vector<std::uint64_t> frequent(frequent_keys);
      for (std::uint64_t& word : frequent) word = random();
      frequent[0] = 0;
      frequent[1] = ~std::uint64_t{0};
      for (const unsigned others_in_8 : {0u, 1u, 4u, 7u}) {
        std::vector<TypeParam> values(count);
        for (TypeParam& value : values) {
          const std::uint64_t word = random();
          // The earlier ones are more frequent, as in a Zipf distribution.
          const std::size_t index = word / 8 % frequent_keys * (word >> 40) >> 24;
          value = from_word<TypeParam>(word % 8 < others_in_8 ? random() : frequent[index]);
        }
        std::vector<TypeParam> expected = values;
        std::sort(expected.begin(), expected.end(), total_less<TypeParam>);
        sort(std::span<TypeParam>(values));
        ASSERT_EQ(std::memcmp(values.data(), expected.data(), count * sizeof(TypeParam)), 0)
            << count << " keys, " << frequent_keys << " frequent";
      }
    }
  }
}

// A record that no specialised code knows: 12 bytes, key in the middle.
struct Odd {
  std::uint16_t before;
  std::int16_t key;
  std::uint32_t index[2];
};
template <std::size_t kRest>
struct Wide {
  double key;
  std::uint32_t index[2];
  char rest[kRest];
};
void set(Odd& record, std::uint64_t word, std::size_t i) {
  record = {1, from_word<std::int16_t>(word), {static_cast<std::uint32_t>(i), 2}};
}
template <std::size_t kRest>
void set(Wide<kRest>& record, std::uint64_t word, std::size_t i) {
  record = {static_cast<double>(word), {static_cast<std::uint32_t>(i), 2}, {}};
}
template <typename K, typename V>
void set(KeyValue<K, V>& record, std::uint64_t word, std::size_t i) {
  record.key = from_word<K>(word);
  record.value = static_cast<V>(i);
}
std::uint64_t index_of(const Odd& record) { return record.index[0]; }
template <std::size_t kRest>
std::uint64_t index_of(const Wide<kRest>& record) {
  return record.index[0];
}
template <typename K, typename V>
std::uint64_t index_of(const KeyValue<K, V>& record) {
  return static_cast<std::uint64_t>(record.value);
}

template <typename T>
void sort_records(std::vector<T>& records, SortOptions options) {
  if constexpr (detail::IsKeyValue<T>::value) {
    sort(std::span<T>(records), options);
  } else {
    sort(std::span<T>(records), &T::key, options);
  }
}

template <typename T>
class SortRecordsTest : public testing::Test {};
using RecordTypes =
    testing::Types<KeyValue<std::uint64_t, std::uint64_t>, KeyValue<double, std::int64_t>,
                   KeyValue<std::uint32_t, std::uint32_t>, KeyValue<float, std::uint32_t>,
                   KeyValue<std::int32_t, std::uint64_t>, Odd, Wide<84>, Wide<284>>;
TYPED_TEST_SUITE(SortRecordsTest, RecordTypes);

TYPED_TEST(SortRecordsTest, EveryDistributionLikeStableSort) {
  auto random = test::test_random();
  for_each_isa([&] {
    for (const SortOptions options :
         {SortOptions{}, SortOptions{.order = Order::kDescending}, SortOptions{.stable = true},
          SortOptions{.order = Order::kDescending, .stable = true}}) {
      for (const Keys keys : kAllKeys) {
        for (const std::size_t count : sizes()) {
          const bool thorough = options.order == Order::kAscending && keys == Keys::kZipf;
          if (count > 25000 && !thorough && !test::long_tests()) continue;
          if (sizeof(TypeParam) > 64 && count > 10000 && !test::long_tests()) continue;
          std::vector<TypeParam> records(count);
          for (std::size_t i = 0; i < count; ++i) {
            set(records[i], make_key(keys, i, count, random), i);
          }
          std::vector<TypeParam> expected = records;
          const auto less = [&](const TypeParam& a, const TypeParam& b) {
            return options.order == Order::kAscending ? total_less(a.key, b.key)
                                                      : total_less(b.key, a.key);
          };
          std::stable_sort(expected.begin(), expected.end(), less);
          sort_records(records, options);
          std::vector<bool> seen(count, false);
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_FALSE(less(records[i], expected[i]) || less(expected[i], records[i]))
                << "keys " << static_cast<int>(keys) << ", " << count << " of them, at " << i;
            const std::uint64_t index = index_of(records[i]);
            ASSERT_LT(index, count);
            ASSERT_FALSE(seen[index]) << "record " << index << " twice";
            seen[index] = true;
            if (options.stable) {
              ASSERT_EQ(index, index_of(expected[i])) << "not stable at " << i;
            }
          }
        }
      }
    }
  });
}

// Whatever their size, records take no room on the stack.
TEST(Sort, LargeRecordsOnASmallStack) {
  using Large = Wide<(std::size_t{32} << 10) - 16>;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{512} << 10), 0);
  for (const std::size_t count : {std::size_t{3}, std::size_t{700}}) {
    std::vector<Large> records(count);
    for (std::size_t i = 0; i < count; ++i) set(records[i], i * 7919 % 31, i);
    pthread_t thread;
    const auto body = [](void* argument) -> void* {
      sort(std::span<Large>(*static_cast<std::vector<Large>*>(argument)), &Large::key);
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, body, &records), 0);
    pthread_join(thread, nullptr);
    for (std::size_t i = 1; i < count; ++i) {
      const bool in_order =
          records[i - 1].key < records[i].key ||
          (records[i - 1].key == records[i].key && index_of(records[i - 1]) < index_of(records[i]));
      ASSERT_TRUE(in_order) << i;
    }
  }
  pthread_attr_destroy(&attributes);
}

TEST(Sort, FindsOutWhatIsInOrder) {
  std::vector<std::uint64_t> values(1000);
  const auto key = [](std::uint64_t value) { return value; };
  EXPECT_EQ(presorted(values.data(), values.size(), key), Presorted::kAscending);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = values.size() - i;
  EXPECT_EQ(presorted(values.data(), values.size(), key), Presorted::kStrictlyDescending);
  values[999] = values[998];
  EXPECT_EQ(presorted(values.data(), values.size(), key), Presorted::kNo);
  EXPECT_EQ(presorted(values.data(), 0, key), Presorted::kAscending);
}

}  // namespace
}  // namespace vortex
