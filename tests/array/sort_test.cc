#include "vortex/sort.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/array/array_inputs.h"
#include "tests/array/instruction_sets.h"
#include "tests/array/nested_outliers.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"

namespace vortex::sort_test { namespace {

using namespace detail;

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
      return test::zipf_rank(word, count) * 0x9e3779b97f4a7c15;
    case Keys::kZipfRanks:
      return test::zipf_rank(word, count);
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

// What a sort() of the keys must make of them.
template <typename T>
void expect_sorted(std::vector<T> keys, const SortOptions& options = {}) {
  const std::vector<T> expected = test::sorted(keys, options.order);
  sort(std::span<T>(keys), options);
  ASSERT_TRUE(test::same_bytes(keys, expected)) << keys.size() << " keys";
}

template <typename T>
class SortKeysTest : public testing::Test {};
using KeyTypes =
    test::TypesOf<testing::Types<std::uint8_t, std::int16_t, std::uint32_t, std::int32_t, float,
                                 std::uint64_t, std::int64_t, double>,
                  testing::Types<std::int32_t, std::uint64_t, double>>;
TYPED_TEST_SUITE(SortKeysTest, KeyTypes);

TYPED_TEST_OF_ONE_THREAD(SortKeysTest, EveryDistributionLikeStdSort) {
  auto random = test::test_random();
  test::for_each_isa([&] {
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
            values[i] =
                test::from_low_bits<TypeParam>(keys == Keys::kUniform ? word : word >> (i % 2 * 8));
          }
          SCOPED_TRACE(static_cast<int>(keys));
          ASSERT_NO_FATAL_FAILURE(expect_sorted(values, {.order = order}));
        }
      }
    }
  });
}

template <typename T>
class SortFloatsTest : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(SortFloatsTest, FloatTypes);

// Programs may have asked for signals where arithmetic is invalid or overflows: no keys lead a sort
// to that.
template <typename T>
void expect_no_exceptions(std::vector<T> keys) {
  std::feclearexcept(FE_ALL_EXCEPT);
  sort(std::span<T>(keys));
  ASSERT_EQ(std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW), 0);
}

// Numbers around one, which are cut by their values, and some among them that have none, or one
// that is far away.
TYPED_TEST_OF_ONE_THREAD(SortFloatsTest, NumbersOfOneScale) {
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam far[] = {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(),
                           -Limits::infinity(), Limits::lowest(),     Limits::denorm_min(),
                           TypeParam{-0.0}};
  auto random = test::test_random();
  std::vector<std::size_t> counts = {1000, 1024, 5000, 70000};
  if (!test::kShadowMemory) counts.insert(counts.end(), {300001, 2200000});
  for (const TypeParam scale : {TypeParam{1}, Limits::min(), Limits::max() / 4}) {
    std::normal_distribution<TypeParam> normal;
    for (const unsigned one_in : {0u, 5000u, 3u}) {
      for (const std::size_t count : counts) {
        if (count > 100000 && (one_in != 5000 || scale != 1)) continue;  // by two threads, too
        std::vector<KeyValue<TypeParam, std::uint64_t>> records(count);
        std::vector<TypeParam> keys(count);
        for (std::size_t i = 0; i < count; ++i) {
          keys[i] = normal(random) / 8 * scale;
          if (one_in != 0 && random() % one_in == 0) keys[i] = far[random() % std::size(far)];
          records[i] = {keys[i], i};
        }
        SCOPED_TRACE(one_in);
        ASSERT_NO_FATAL_FAILURE(expect_sorted(keys, {.threads = 2}));
        if (count > 1000000) continue;
        ASSERT_NO_FATAL_FAILURE(expect_no_exceptions(keys));
        ASSERT_NO_FATAL_FAILURE(expect_sorted(keys, {.order = Order::kDescending}));
        const auto key_of = [](const auto& record) { return record.key; };
        const auto expected = test::stably_sorted_by(records, key_of, Order::kAscending);
        sort(std::span(records), {.stable = true});
        ASSERT_TRUE(test::same_bytes(records, expected));
      }
    }
  }
}

// More than the caches hold, many of them equal.
template <typename T>
class SortRepeatedTest : public testing::Test {};
using TypesOf32Bits = testing::Types<std::uint32_t, std::int32_t, float>;
TYPED_TEST_SUITE(SortRepeatedTest, TypesOf32Bits);

TYPED_TEST(SortRepeatedTest, MoreThanTheCachesHold) {
  auto random = test::test_random();
  std::vector<TypeParam> keys((std::size_t{1} << 20) + 77);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t key = make_key(Keys::kZipf, i, keys.size(), random);
    std::memcpy(&keys[i], &key, sizeof keys[i]);
  }
  test::for_each_isa([&] {
    for (const Order order : {Order::kAscending, Order::kDescending}) {
      ASSERT_NO_FATAL_FAILURE(expect_sorted(keys, {.order = order, .threads = 1}));
    }
  });
}

#if defined(__x86_64__)
// Few, zeros of both signs among them, with NaNs and without, where denormals count as zeros or
// trap, too.
TYPED_TEST_OF_ONE_THREAD(SortFloatsTest, FewWithZerosAndDenormals) {
  using Limits = std::numeric_limits<TypeParam>;
  const TypeParam kept[] = {
      TypeParam{0},        TypeParam{-0.0},         Limits::denorm_min(), -Limits::denorm_min(),
      Limits::min() / 3,   -Limits::min() / 3,      Limits::infinity(),   -Limits::infinity(),
      Limits::quiet_NaN(), -Limits::signaling_NaN()};
  auto random = test::test_random();
  const unsigned control = _mm_getcsr();
  constexpr unsigned kFlags = 0x3f, kZeros = 0x8040, kNoTraps = 0x100;
  const auto expect_sorted_with = [&](unsigned mode, const std::vector<TypeParam>& keys,
                                      Order order) {
    const std::vector<TypeParam> expected = test::sorted(keys, order);
    std::vector<TypeParam> sorted = keys;
    _mm_setcsr(mode);
    sort(std::span(sorted), {.order = order, .threads = 1});
    const unsigned raised = _mm_getcsr() & kFlags;
    _mm_setcsr(control);
    ASSERT_TRUE(test::same_bytes(sorted, expected)) << keys.size() << " keys";
    ASSERT_TRUE(raised == 0 || keys.size() > 512) << keys.size() << " keys: " << raised;
  };
  test::for_each_isa([&] {
    // Without vectors they are cut by their values, which sets flags.
    if (isa_in_use() == Isa::kPortable) return;
    for (const std::size_t count : {1u, 64u, 65u, 100u, 127u, 128u, 129u, 192u, 193u, 256u, 257u,
                                    300u, 384u, 385u, 449u, 511u, 512u, 513u, 1100u}) {
      for (const std::size_t kinds : {0u, 2u, 6u, 8u, 10u}) {
        std::vector<TypeParam> keys(count);
        for (TypeParam& key : keys) {
          key = static_cast<TypeParam>(static_cast<double>(random() >> 11) * 0x1p-52 - 1);
          if (kinds != 0 && random() % 3 == 0) key = kept[random() % kinds];
        }
        for (const unsigned mode : {control, control | kZeros, control & ~kNoTraps}) {
          for (const Order order : {Order::kAscending, Order::kDescending}) {
            ASSERT_NO_FATAL_FAILURE(expect_sorted_with(mode & ~kFlags, keys, order)) << kinds;
          }
        }
      }
    }
  });
}
#endif

// Numbers of one scale by a team, in the passes that only arrays of this size get.
TEST(SortFloats, OfOneScaleByThreads) {
  auto random = test::test_random();
  std::normal_distribution<float> normal;
  std::vector<float> keys((std::size_t{1} << 21) + 77);
  for (float& key : keys) key = normal(random) / 8;
  expect_sorted(keys, {.threads = 2});
}

// Enough keys that the frequent ones are counted: a few of many, all of them, and the least and the
// greatest of all.
TYPED_TEST_OF_ONE_THREAD(SortKeysTest, FrequentKeysAmongOthers) {
  auto random = test::test_random();
  for (const std::size_t frequent_keys : {3, 20, 600}) {
    std::vector<std::uint64_t> frequent(frequent_keys);
    for (std::uint64_t& word : frequent) word = random();
    frequent[0] = 0;
    frequent[1] = ~std::uint64_t{0};
    for (const unsigned others_in_8 : {0u, 1u, 4u, 7u}) {
      std::vector<TypeParam> values(70001);
      for (TypeParam& value : values) {
        const std::uint64_t word = random();
        // The earlier ones are more frequent, as in a Zipf distribution.
        const std::size_t index = word / 8 % frequent_keys * (word >> 40) >> 24;
        value = test::from_low_bits<TypeParam>(word % 8 < others_in_8 ? random() : frequent[index]);
      }
      SCOPED_TRACE(frequent_keys);
      ASSERT_NO_FATAL_FAILURE(expect_sorted(values));
    }
  }
}

// Keys of so few values that they are compared or looked up, and of a few more than that: values
// that share a place of the table, that come late, and the one that free places hold. Arrays that
// are long enough for the table, for many values, and for a few.
TYPED_TEST_OF_ONE_THREAD(SortKeysTest, FewValuesAndMore) {
  auto random = test::test_random();
  test::for_each_isa([&] {
    for (const std::size_t values : {1, 2, 3, 4, 8, 9, 16, 17, 1000, 1536, 1537}) {
      for (const bool crowded : {false, true}) {
        // Multiples of the inverse of the table's multiplier have the same home.
        constexpr std::uint64_t kInverse = 0xf1de83e19937733d;
        static_assert(kInverse * 0x9e3779b97f4a7c15 == 1);
        std::vector<TypeParam> chosen(values);
        for (std::size_t i = 0; i < values; ++i)
          chosen[i] = test::from_low_bits<TypeParam>(crowded ? i * kInverse : random());
        if (random() % 2 == 0) chosen[random() % values] = TypeParam{};
        const std::size_t least[] = {70000, 4096, 500};
        const std::size_t size = random() % 3;
        const std::size_t count = least[size] + random() % (size == 2 ? 3000 : 9000);
        std::vector<TypeParam> keys(count);
        for (TypeParam& key : keys) key = chosen[random() % values];
        const std::size_t late[] = {0, 1, 3, 40};
        for (std::size_t i = late[random() % 4]; i-- > 0;) {
          keys[count - 1 - random() % (count / 8)] = test::from_low_bits<TypeParam>(random());
        }
        SCOPED_TRACE(std::to_string(values) + (crowded ? " values, crowded" : " values"));
        ASSERT_NO_FATAL_FAILURE(expect_sorted(keys, {.order = test::random_direction(random)}));
      }
    }
  });
}

// So many that several threads count them, and that they are written past the caches.
TEST(SortFewValues, ByThreads) {
  auto random = test::test_random();
  for (const std::size_t values : {3, 600}) {
    std::vector<std::uint64_t> chosen(values);
    for (std::uint64_t& value : chosen) value = random();
    for (const unsigned threads : {1u, 2u, 7u}) {
      std::vector<std::uint64_t> keys((std::size_t{1} << 21) + random() % 1000);
      std::map<std::uint64_t, std::size_t> counts;
      for (std::uint64_t& key : keys) ++counts[key = chosen[random() % values]];
      sort(std::span(keys), {.threads = threads});
      auto at = keys.begin();
      for (const auto& counted : counts) {
        const auto end = at + static_cast<std::ptrdiff_t>(counted.second);
        ASSERT_TRUE(std::all_of(at, end, [&](std::uint64_t key) { return key == counted.first; }))
            << values << " values, " << threads << " threads";
        at = end;
      }
    }
  }
}

// Outliers on every level of a sort by bytes, and on levels at random; each key `of` what the sort
// makes of the bits.
template <typename Key, typename Body>
void for_each_nesting(Body body) {
  using Bits = KeyBits<Key>;
  auto random = test::test_random();
  const int turns = test::long_tests() ? 300 : 12;
  for (int turn = 0; turn < turns; ++turn) {
    const bool every_byte = turn < 3;
    const auto levels =
        every_byte ? test::outliers_at_every_byte<Bits>() : test::random_nesting(random);
    const std::size_t count = turn == 0 ? 23000 : 2000 + random() % 60000;
    std::vector<Key> keys;
    for (Bits bits :
         test::nested_keys<Bits>(levels, count, random, static_cast<test::NestedOrder>(turn % 3))) {
      // Narrow keys have fewer bits than the type of their bits.
      if constexpr (sizeof(Key) < 4) bits >>= 32 - 8 * sizeof(Key);
      keys.push_back(test::from_key_bits<Key>(bits));
    }
    body(keys);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST_OF_ONE_THREAD(SortKeysTest, NestedOutliers) {
  for_each_nesting<TypeParam>([](const auto& keys) { expect_sorted(keys); });
}

constexpr auto kKeyOf = [](const auto& record) { return record.key; };

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
  record = {1, test::from_low_bits<std::int16_t>(word), {static_cast<std::uint32_t>(i), 2}};
}
template <std::size_t kRest>
void set(Wide<kRest>& record, std::uint64_t word, std::size_t i) {
  record = {static_cast<double>(word), {static_cast<std::uint32_t>(i), 2}, {}};
}
template <typename K, typename V>
void set(KeyValue<K, V>& record, std::uint64_t word, std::size_t i) {
  record.key = test::from_low_bits<K>(word);
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
  if constexpr (detail::kIsKeyValue<T>) {
    sort(std::span<T>(records), options);
  } else {
    sort(std::span<T>(records), &T::key, options);
  }
}

template <typename T>
class SortRecordsTest : public testing::Test {};
using RecordTypes = test::TypesOf<
    testing::Types<KeyValue<std::uint64_t, std::uint64_t>, KeyValue<double, std::int64_t>,
                   KeyValue<std::uint32_t, std::uint32_t>, KeyValue<float, std::uint32_t>,
                   KeyValue<std::int32_t, std::uint64_t>, Odd, Wide<8>, Wide<84>, Wide<284>>,
    testing::Types<KeyValue<double, std::int64_t>, KeyValue<std::int32_t, std::uint64_t>, Odd,
                   Wide<84>>>;
TYPED_TEST_SUITE(SortRecordsTest, RecordTypes);

TYPED_TEST_OF_ONE_THREAD(SortRecordsTest, EveryDistributionLikeStableSort) {
  auto random = test::test_random();
  test::for_each_isa([&] {
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
          const auto less = test::before_by(kKeyOf, options.order);
          const auto expected = test::stably_sorted_by(records, kKeyOf, options.order);
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

TYPED_TEST_OF_ONE_THREAD(SortRecordsTest, NestedOutliers) {
  using Key = decltype(TypeParam::key);
  for_each_nesting<Key>([](const std::vector<Key>& keys) {
    std::vector<TypeParam> records(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      set(records[i], 0, i);
      records[i].key = keys[i];
    }
    const auto expected = test::stably_sorted_by(records, kKeyOf);
    sort_records(records, {.stable = true});
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(index_of(records[i]), index_of(expected[i])) << "at " << i;
    }
  });
}

// How much of a stack of its own a thread has used when `body` has returned.
std::size_t stack_used_by(const std::function<void()>& body) {
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  constexpr unsigned char kPaint = 0xa5;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  std::memset(memory, kPaint, kBytes);
  pthread_attr_t attributes;
  EXPECT_EQ(pthread_attr_init(&attributes), 0);
  EXPECT_EQ(pthread_attr_setstack(&attributes, memory, kBytes), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  const auto* const bytes = static_cast<const unsigned char*>(memory);
  const std::size_t untouched = static_cast<std::size_t>(
      std::find_if(bytes, bytes + kBytes, [](unsigned char byte) { return byte != kPaint; }) -
      bytes);
  munmap(memory, kBytes);
  return kBytes - untouched;
}

// Whatever their size, records take no room on the stack.
TEST_OF_ONE_THREAD(Sort, LargeRecordsOnASmallStack) {
  using Large = Wide<(std::size_t{32} << 10) - 16>;
  for (const std::size_t count : {std::size_t{3}, std::size_t{700}}) {
    std::vector<Large> records(count);
    for (std::size_t i = 0; i < count; ++i) set(records[i], i * 7919 % 31, i);
    EXPECT_LE(stack_used_by([&] { sort(std::span<Large>(records), &Large::key); }),
              std::size_t{512} << 10);
    for (std::size_t i = 1; i < count; ++i) {
      const bool in_order =
          records[i - 1].key < records[i].key ||
          (records[i - 1].key == records[i].key && index_of(records[i - 1]) < index_of(records[i]));
      ASSERT_TRUE(in_order) << i;
    }
  }
}

// Keys that lead the sort as deep as they can: what a level takes of the stack, they multiply.
std::vector<std::vector<std::uint64_t>> deep_keys() {
  std::vector<std::vector<std::uint64_t>> all;
  auto random = test::test_random();
  for (const std::size_t count : {157, 1000, 24000, 60000, 200000}) {
    std::vector<std::uint64_t> powers(count), below(count), fine(count);
    double value = 1;
    for (std::size_t i = 0; i < count; ++i) {
      powers[i] = std::uint64_t{1} << i * 7 % 64;
      below[i] = ~powers[i];
      fine[i] = static_cast<std::uint64_t>(value);
      value *= 1 + 43.0 / static_cast<double>(count);
    }
    std::shuffle(fine.begin(), fine.end(), random);
    all.insert(all.end(), {powers, below, fine});
    for (const std::size_t at_ends : {1, 250, 1000}) {
      auto levels = test::outliers_at_every_byte<std::uint64_t>();
      for (test::NestedLevel& level : levels) level.at_ends = at_ends;
      all.push_back(test::nested_keys<std::uint64_t>(levels, count, random));
    }
    for (int turn = 0; turn < 4; ++turn) {
      all.push_back(test::nested_keys<std::uint64_t>(test::random_nesting(random), count, random));
    }
  }
  return all;
}

// The stack stays within the contract of sort(), whatever the keys.
TYPED_TEST_OF_ONE_THREAD(SortRecordsTest, TakesLittleStack) {
  if (test::kShadowMemory) GTEST_SKIP() << "a sanitizer's frames are larger";
  using Key = decltype(TypeParam::key);
  for (const auto& keys : deep_keys()) {
    std::vector<TypeParam> records(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      set(records[i], 0, i);
      using Bits = KeyBits<Key>;
      auto bits = static_cast<Bits>(keys[i] >> (64 - std::numeric_limits<Bits>::digits));
      if constexpr (sizeof(Key) < 4) bits >>= 32 - 8 * sizeof(Key);
      records[i].key = test::from_key_bits<Key>(bits);
    }
    const std::size_t carried =
        sizeof(TypeParam) > detail::kMaxCarriedBytes ? 0 : sizeof(TypeParam);
    ASSERT_LE(stack_used_by([&] { sort_records(records, {.stable = true}); }),
              (std::size_t{64} << 10) + 256 * carried)
        << keys.size() << " records";
  }
}

// Numbers of ever smaller scales: where a sort looks, they are spread over the greatest scale, so
// that it cuts by value, and all others lie in the first slice, where they are arranged likewise.
template <typename T, typename Random>
std::vector<T> nested_scales(std::size_t count, T scale, int levels, Random& random) {
  std::vector<T> keys(count);
  if (levels == 0) {
    std::uniform_real_distribution<T> below(0, scale);
    for (T& key : keys) key = below(random);
    return keys;
  }
  constexpr std::size_t kLooks = 64;
  const auto others = nested_scales<T>(count - kLooks, scale / 1000000, levels - 1, random);
  for (std::size_t i = 0, look = 0; i < count; ++i) {
    const bool looked_at = look < kLooks && i == count * look / kLooks;
    keys[i] = looked_at ? scale * static_cast<T>(++look) / kLooks : others[i - look];
  }
  return keys;
}

TYPED_TEST_OF_ONE_THREAD(SortFloatsTest, NumbersOfEverSmallerScales) {
  auto random = test::test_random();
  for (const std::size_t count : {2048, 5000, 20000, 24000, 32768, 55296, 60000}) {
    SCOPED_TRACE(count);
    const auto keys = nested_scales<TypeParam>(count, TypeParam{1e30f}, 8, random);
    auto sorted = keys;
    const std::size_t stack = stack_used_by([&] { sort(std::span(sorted)); });
    ASSERT_TRUE(test::same_bytes(sorted, test::sorted(keys, Order::kAscending)));
    // A sanitizer's frames are larger.
    ASSERT_LE(test::kShadowMemory ? 0 : stack, std::size_t{64} << 10);
    std::vector<KeyValue<TypeParam, std::uint64_t>> records(count);
    for (std::size_t i = 0; i < count; ++i) records[i] = {keys[i], i};
    const auto key_of = [](const auto& record) { return record.key; };
    const auto expected = test::stably_sorted_by(records, key_of, Order::kAscending);
    sort(std::span(records), {.stable = true});
    ASSERT_TRUE(test::same_bytes(records, expected));
  }
}

TEST_OF_ONE_THREAD(Sort, FindsOutWhatIsInOrder) {
  std::vector<std::uint64_t> values(1000);
  const auto key = [](std::uint64_t value) { return value; };
  EXPECT_EQ(presorted(values.data(), values.size(), key), Presorted::kAscending);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = values.size() - i;
  EXPECT_EQ(presorted(values.data(), values.size(), key), Presorted::kStrictlyDescending);
  values[999] = values[998];
  EXPECT_EQ(presorted(values.data(), values.size(), key), Presorted::kNo);
  EXPECT_EQ(presorted(values.data(), 0, key), Presorted::kAscending);
}

// Arrays that lie in order, and such with one key that does not, at the ends of what is looked at
// together and anywhere.
TYPED_TEST_OF_ONE_THREAD(SortKeysTest, InOrderButForOne) {
  auto random = test::test_random();
  for (const std::size_t count : {512u, 530u, 4096u, 65'536u, 65'537u, 70'001u}) {
    std::vector<TypeParam> keys(count);
    for (TypeParam& key : keys) {
      const std::uint64_t word = random();
      std::memcpy(&key, &word, sizeof(key));
    }
    const std::vector<TypeParam> expected = test::sorted(keys);
    for (const std::size_t wrong : {count, std::size_t{16}, std::size_t{17}, std::size_t{272},
                                    std::size_t{273}, count - 1, std::size_t{random() % count}}) {
      for (const bool turned : {false, true}) {
        keys = expected;
        if (wrong < count) std::swap(keys[wrong], keys[random() % count]);
        if (turned) std::reverse(keys.begin(), keys.end());
        for (const Order order : {Order::kAscending, Order::kDescending}) {
          auto given = keys, wanted = expected;
          if (order == Order::kDescending) std::reverse(wanted.begin(), wanted.end());
          vortex::sort(given, {.order = order, .threads = 1});
          ASSERT_TRUE(test::same_bytes(wanted, given)) << count << ", wrong at " << wrong;
        }
      }
    }
  }
}

// Threads look for order in parts, the last of which is short.
TEST(SortInOrder, ByThreads) {
  auto random = test::test_random();
  constexpr std::size_t kCount = (std::size_t{1} << 21) + 5, kPart = std::size_t{1} << 16;
  test::Turns turns(random, 4);
  for (const Order order : {Order::kAscending, Order::kDescending}) {
    const std::size_t somewhere = 1 + random() % (kCount - 2);
    for (const std::size_t wrong :
         {kCount, std::size_t{1}, kPart, kPart + 1, kCount - 1, somewhere}) {
      if (turns.leave_out()) continue;
      std::vector<std::uint32_t> keys(kCount), expected(kCount);
      for (std::size_t i = 0; i < kCount; ++i) expected[i] = static_cast<std::uint32_t>(3 * i);
      keys = expected;
      if (wrong < kCount) {
        keys[wrong] = keys[wrong - 1] - 1;
        expected = keys;
        std::sort(expected.begin(), expected.end());
      }
      if (order == Order::kDescending) std::reverse(keys.begin(), keys.end());
      vortex::sort(keys, {.threads = wrong % 2 == 0 ? 2u : 7u});
      ASSERT_TRUE(test::same_bytes(expected, keys)) << "wrong at " << wrong;
    }
  }
}

// Keys that are strings of bytes: of ten, with few values, with all bytes, with long beginnings in
// common, and views of any length, zeros and beginnings of each other among them.
TEST(Sort, ByStringsOfBytes) {
  auto random = test::test_random();
  struct Record {
    std::array<unsigned char, 10> key;
    std::uint32_t place;
  };
  struct View {
    std::string_view key;
    std::uint32_t place;
  };
  const auto expect_like_stable_sort = [](const auto& given, const SortOptions& options) {
    const auto bytes_of = [](const auto& record) {
      return std::vector<unsigned char>(record.key.begin(), record.key.end());
    };
    const auto expected = test::stably_sorted_by(given, bytes_of, options.order);
    auto sorted = given;
    vortex::sort(sorted, kKeyOf, options);
    for (std::size_t i = 0; i < given.size(); ++i) {
      ASSERT_EQ(sorted[i].place, expected[i].place) << i << " of " << given.size();
    }
  };
  test::Turns turns(random, 2);
  for (const std::size_t count : {0u, 1u, 2u, 24u, 25u, 1000u, 70'000u}) {
    for (const unsigned values : {2u, 256u}) {
      std::vector<Record> records(count);
      std::vector<std::string> texts(count);
      std::vector<View> views(count);
      for (std::uint32_t i = 0; i < count; ++i) {
        records[i].place = views[i].place = i;
        for (unsigned char& byte : records[i].key) byte = random() % values;
        texts[i] = std::string(random() % 3 * 19, 'a');
        for (std::size_t more = random() % 20; more > 0; --more) {
          texts[i] += static_cast<char>(random() % values);
        }
        views[i].key = texts[i];
      }
      for (const Order order : {Order::kAscending, Order::kDescending}) {
        for (const unsigned threads : {1u, 2u, 7u}) {
          if (turns.leave_out()) continue;
          const SortOptions options{.order = order, .threads = threads};
          ASSERT_NO_FATAL_FAILURE(expect_like_stable_sort(records, options));
          ASSERT_NO_FATAL_FAILURE(expect_like_stable_sort(views, options));
        }
      }
    }
  }
}

// Each level leaves a record behind: what is still to do lies in memory, not on the stack.
TEST_OF_ONE_THREAD(Sort, ByStringsThatBeginEachOther) {
  const std::string text(8 * 3000, 'x');
  std::vector<std::string_view> views;
  for (std::size_t length = text.size() + 1; length-- > 0;) {
    if (length % 7 == 0) views.push_back(std::string_view(text).substr(0, length));
  }
  vortex::sort(views, [](std::string_view view) { return view; });
  EXPECT_TRUE(std::ranges::is_sorted(views, {}, &std::string_view::size));
  EXPECT_EQ(views.back().size(), text.size() / 7 * 7);
}

}  // namespace

}  // namespace vortex::sort_test
