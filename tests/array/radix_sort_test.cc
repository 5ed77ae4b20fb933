#include "vortex/radix_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/array/nested_outliers.h"
#include "tests/array/number_order.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex::radix_sort_test { namespace {

constexpr std::size_t kSampled = 512;  // records that the sort looks at before it chooses a split

// An array on a pool of its own that has `extra_blocks` beyond those of `count` records.
template <typename T>
struct Fixture {
  Fixture(std::size_t count, std::size_t block_bytes, std::size_t extra_blocks)
      : array_blocks((count * sizeof(T) + block_bytes - 1) / block_bytes),
        blocks({.pool_bytes = (array_blocks + extra_blocks) * block_bytes,
                .block_bytes = block_bytes,
                .warming = Warming::kOnDemand}),
        pool(blocks, array_blocks + extra_blocks),
        array(pool, count) {}

  std::vector<T> result() { return {array.data(), array.data() + array.size()}; }

  std::size_t array_blocks;
  BlockPool blocks;
  StreamPool pool;
  VanishingArray<T> array;
};

// How a kind of record is made and read.
template <RadixKey K>
struct Bare {
  using Record = K;
  using Key = K;
  static constexpr bool kStable = true;
  static Record make(Key key, std::uint32_t) { return key; }
  static Key key(const Record& record) { return record; }
  static RadixSortReport sort(VanishingArray<Record>& array, const SortOptions& options, int bits) {
    return radix_sort(array, options, bits);
  }
};

template <RadixKey K, typename V>
struct Pair {
  using Record = KeyValue<K, V>;
  using Key = K;
  static constexpr bool kStable = false;
  static Record make(Key key, std::uint32_t index) { return {key, static_cast<V>(index)}; }
  static Key key(const Record& record) { return record.key; }
  static RadixSortReport sort(VanishingArray<Record>& array, const SortOptions& options, int bits) {
    return radix_sort(array, options, bits);
  }
};

template <RadixKey K, std::size_t bytes>
struct Wide {
  struct Record {
    std::array<std::uint32_t, bytes / 4 - 1 - sizeof(K) / 4> filler;
    std::uint32_t index;
    std::array<std::byte, sizeof(K)> key;
  };
  static_assert(sizeof(Record) == bytes);
  using Key = K;
  static constexpr bool kStable = true;
  static Record make(Key key, std::uint32_t index) {
    Record record;
    record.filler.fill(index * 7);
    record.index = index;
    std::memcpy(record.key.data(), &key, sizeof(K));
    return record;
  }
  static Key key(const Record& record) {
    Key key;
    std::memcpy(&key, record.key.data(), sizeof(K));
    return key;
  }
  static RadixSortReport sort(VanishingArray<Record>& array, const SortOptions& options, int bits) {
    return radix_sort(array, &Wide::key, options, bits);
  }
};

// Key bits of `count` records, for every shape of input that the sort has to bear.
template <typename Bits>
struct Shape {
  const char* name;
  std::function<std::vector<Bits>(std::size_t count)> make;
};

// Spread by a sequence of low discrepancy, so that no sample of them looks uneven by chance.
template <typename Bits>
Bits even(std::uint64_t i) {
  return static_cast<Bits>((i + 1) * 0x9e3779b97f4a7c15 >>
                           (64 - std::numeric_limits<Bits>::digits));
}

// Where the sample is taken keys are spread, elsewhere they lie in one bucket.
template <typename Bits>
std::vector<Bits> against_the_sample(std::size_t count) {
  std::vector<Bits> bits(count);
  for (std::size_t i = 0; i < count; ++i) bits[i] = even<Bits>(i) >> 12;
  const std::size_t step = count / kSampled;
  for (std::size_t i = 0; step != 0 && i < kSampled; ++i) {
    bits[i * step + (i * 0x9e3779b97f4a7c15) % step] = even<Bits>(i);
  }
  return bits;
}

template <typename Bits>
std::vector<Shape<Bits>> shapes() {
  constexpr int kDigits = std::numeric_limits<Bits>::digits;
  const auto each = [](auto key_at) {
    return [key_at](std::size_t count) {
      auto random = test::test_random();
      std::vector<Bits> bits(count);
      for (std::size_t i = 0; i < count; ++i) bits[i] = static_cast<Bits>(key_at(i, random()));
      return bits;
    };
  };
  const auto rank = [](std::uint64_t word) {  // the density of rank r falls as 1/r
    return std::exp(static_cast<double>(word >> 11) * 0x1p-53 * 14.0);
  };
  return {
      {"even", each([](std::uint64_t i, std::uint64_t word) {
         return even<Bits>(i) ^ (word & ((std::uint64_t{1} << (kDigits / 2)) - 1));
       })},
      {"random", each([](std::uint64_t, std::uint64_t word) { return word; })},
      {"equal", each([](std::uint64_t, std::uint64_t) { return Bits{7}; })},
      {"few", each([](std::uint64_t, std::uint64_t word) { return word % 5 << (kDigits - 8); })},
      {"zipf ranks",
       each([rank](std::uint64_t, std::uint64_t word) { return static_cast<Bits>(rank(word)); })},
      {"zipf", each([rank](std::uint64_t, std::uint64_t word) {
         return static_cast<std::uint64_t>(rank(word)) * 0x9e3779b97f4a7c15 >> (64 - kDigits);
       })},
      {"sorted", each([](std::uint64_t i, std::uint64_t) { return i << (kDigits - 24); })},
      {"reversed", each([](std::uint64_t i, std::uint64_t) { return ~(i << (kDigits - 24)); })},
      {"nearly sorted", each([](std::uint64_t i, std::uint64_t word) {
         return (word % 100 == 0 ? word >> 44 : i) << (kDigits - 24);
       })},
      {"shared prefix", each([](std::uint64_t, std::uint64_t word) {
         return (Bits{0x5a} << (kDigits - 8)) | (word >> (64 - kDigits * 3 / 8));
       })},
      {"one huge bucket", each([](std::uint64_t i, std::uint64_t word) {
         return i % 5 == 0 ? (Bits{0x2a} << (kDigits - 8)) | (word >> (64 - kDigits + 8))
                           : even<Bits>(i);
       })},
      {"outliers at every byte",
       [](std::size_t count) {
         auto random = test::test_random();
         const auto levels = test::outliers_at_every_byte<Bits>();
         auto bits = test::nested_keys<Bits>(levels, count, random);
         bits.resize(count);
         return bits;
       }},
      {"nested outliers",
       [](std::size_t count) {
         auto random = test::test_random();
         auto bits = test::nested_keys<Bits>(test::random_nesting(random), count, random);
         bits.resize(count);
         return bits;
       }},
      {"against the sample", against_the_sample<Bits>}};
}

template <typename Kind>
std::vector<typename Kind::Record> records_of(
    const std::vector<KeyBits<typename Kind::Key>>& bits) {
  std::vector<typename Kind::Record> records;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    auto own = bits[i];
    // Narrow keys have fewer bits than the type of their bits.
    if constexpr (sizeof(typename Kind::Key) < 4) own >>= 32 - 8 * sizeof(typename Kind::Key);
    records.push_back(
        Kind::make(test::from_key_bits<typename Kind::Key>(own), static_cast<std::uint32_t>(i)));
  }
  return records;
}

// The key as the number that the kind of record says; test::before_by() knows the order of those.
template <typename Kind>
constexpr auto kKeyOf = [](const typename Kind::Record& record) { return Kind::key(record); };

// Puts records with equal keys, which may have come in any order, into one that depends on nothing.
// By code that is compiled once for all records.
template <typename Record>
void order_equal_keys(std::vector<Record>& records) {
  std::size_t record_bytes = sizeof(Record);
  const auto compare = [](const void* a, const void* b, void* bytes) {
    return std::memcmp(a, b, *static_cast<const std::size_t*>(bytes));
  };
  qsort_r(records.data(), records.size(), record_bytes, compare, &record_bytes);
}

template <typename Kind>
class RadixSortOf : public testing::Test {};

using Kinds = test::TypesOf<
    testing::Types<Bare<std::uint32_t>, Bare<std::uint64_t>, Bare<std::int32_t>, Bare<std::int64_t>,
                   Bare<float>, Bare<double>, Bare<std::int16_t>,
                   Pair<std::uint64_t, std::uint64_t>, Pair<double, std::uint64_t>,
                   Pair<std::int64_t, std::uint64_t>, Pair<std::uint32_t, std::uint32_t>,
                   Pair<float, std::uint32_t>, Wide<std::int32_t, 12>, Wide<std::uint64_t, 24>,
                   Wide<double, 100>, Wide<std::uint64_t, 520>>,
    testing::Types<Bare<std::int32_t>, Bare<double>, Pair<double, std::uint64_t>,
                   Wide<std::int32_t, 12>, Wide<std::uint64_t, 520>>>;
TYPED_TEST_SUITE(RadixSortOf, Kinds);

TYPED_TEST_OF_ONE_THREAD(RadixSortOf, SortsEveryShapeWithinItsBound) {
  using Record = typename TypeParam::Record;
  constexpr std::size_t kBlock = kMinBlockBytes;
  // Some blocks a bucket; buckets of small records are sorted in a cache, those of others are not.
  const std::size_t count = std::max<std::size_t>(400'000 / sizeof(Record), 6'011);
  int through_buckets = 0;
  for (const auto& shape : shapes<KeyBits<typename TypeParam::Key>>()) {
    const auto records = records_of<TypeParam>(shape.make(count));
    int turn = 0;
    for (const Order order : {Order::kAscending, Order::kDescending}) {
      const auto expected = test::stably_sorted_by(records, kKeyOf<TypeParam>, order);
      for (const bool stable : {false, true}) {
        const int bits = 1 + turn++;
        SCOPED_TRACE(std::string(shape.name) + ", " + std::to_string(bits) + " bits");
        Fixture<Record> fixture(count, kBlock, radix_sort_extra_blocks(bits));
        fixture.array.load(records);
        const RadixSortReport report =
            TypeParam::sort(fixture.array, {.order = order, .stable = stable}, bits);
        auto result = fixture.result();
        if (stable || TypeParam::kStable) {
          ASSERT_TRUE(test::same_bytes(result, expected));
        } else {
          const auto before = test::before_by(kKeyOf<TypeParam>, order);
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_FALSE(before(result[i], expected[i]) || before(expected[i], result[i]))
                << "record " << i;
          }
          order_equal_keys(result);
          auto all = expected;
          order_equal_keys(all);
          ASSERT_TRUE(test::same_bytes(result, all));
        }
        through_buckets += report.first_split_bits != 0;
        // Records that straddle blocks hold two of them while they move.
        const std::size_t straddling = 512 % sizeof(Record) == 0 ? 0 : 2;
        EXPECT_LE(report.peak_blocks, fixture.array_blocks + (std::size_t{1} << bits) + straddling);
        // Nothing is left but the array.
        EXPECT_EQ(fixture.pool.blocks_in_use(), fixture.array_blocks);
      }
    }
  }
  EXPECT_GE(through_buckets, 8);
}

constexpr std::size_t kMany = (std::size_t{1} << 20) + 12345;

std::vector<std::uint64_t> even_keys(std::size_t count) {
  return shapes<std::uint64_t>().front().make(count);
}

TEST_OF_ONE_THREAD(RadixSortTest, EpsilonIsABlockForEachBucket) {
  constexpr std::size_t kBlock = std::size_t{64} << 10;
  // Where the buckets end in their last blocks must not matter.
  for (const std::size_t count : {std::size_t{1'300'000}, kMany, std::size_t{2'100'000}}) {
    const auto values = even_keys(count);
    const auto expected = test::sorted(values);
    for (int bits : {6, 7, 8}) {
      SCOPED_TRACE(std::to_string(count) + " keys, " + std::to_string(bits) + " bits");
      // A pool with more than it takes: what it does not need it does not use.
      Fixture<std::uint64_t> fixture(count, kBlock, 3 * radix_sort_extra_blocks(bits));
      fixture.array.load(values);
      const RadixSortReport report = radix_sort(fixture.array, {}, bits);
      EXPECT_EQ(report.first_split_bits, bits);
      EXPECT_LE(report.peak_blocks, fixture.array_blocks + (std::size_t{1} << bits));
      EXPECT_LE(report.working_bytes, std::size_t{2} << 20);
      EXPECT_LE(report.epsilon_bytes, kBlock << bits);
      EXPECT_EQ(fixture.result(), expected);
    }
  }
}

// Each bucket has one key more than fill its blocks: as many partly filled blocks as can be.
TEST_OF_ONE_THREAD(RadixSortTest, TheBoundHoldsForTheWorstBucketSizes) {
  constexpr std::size_t kBlock = kMinBlockBytes;
  for (const std::size_t blocks_of_each : {1, 3, 40}) {
    constexpr int kBits = 4;
    auto random = test::test_random();
    std::vector<std::uint64_t> values;
    for (std::uint64_t bucket = 0; bucket < 1 << kBits; ++bucket) {
      for (std::size_t i = 0; i <= blocks_of_each * kBlock / 8; ++i) {
        values.push_back(bucket << (64 - kBits) | random() >> kBits);
      }
    }
    std::shuffle(values.begin(), values.end(), random);
    // The sample sees both ends, so that it finds the keys even whatever else it sees.
    const std::size_t step = values.size() / kSampled;
    std::iter_swap(values.begin(), std::min_element(values.begin(), values.end()));
    std::iter_swap(values.begin() + static_cast<std::ptrdiff_t>(step + 0x9e3779b97f4a7c15 % step),
                   std::max_element(values.begin(), values.end()));
    const auto expected = test::sorted(values);
    Fixture<std::uint64_t> fixture(values.size(), kBlock, radix_sort_extra_blocks(kBits));
    fixture.array.load(values);
    const RadixSortReport report = radix_sort(fixture.array, {}, kBits);
    EXPECT_EQ(report.first_split_bits, kBits);
    EXPECT_LE(report.peak_blocks, fixture.array_blocks + (1 << kBits));
    EXPECT_EQ(fixture.result(), expected);
  }
}

TEST_OF_ONE_THREAD(RadixSortTest, ChoosesByTheMemoryThereIs) {
  constexpr std::size_t kBlock = std::size_t{64} << 10;
  const auto values = even_keys(kMany);
  const auto expected = test::sorted(values);
  // No block to spare: within the array.
  {
    Fixture<std::uint64_t> fixture(kMany, kBlock, 0);
    fixture.array.load(values);
    EXPECT_EQ(radix_sort(fixture.array).first_split_bits, 0);
    EXPECT_EQ(fixture.result(), expected);
  }
  // Blocks of others do not count as epsilon, whose blocks are a quarter of the array's at most.
  {
    constexpr int kBits = 5;
    Fixture<std::uint64_t> fixture(kMany, kBlock, 100 + radix_sort_extra_blocks(7));
    VanishingArray<std::uint64_t> other(fixture.pool, 100 * kBlock / 8);
    other.load(std::vector<std::uint64_t>(100 * kBlock / 8, 1));
    fixture.array.load(values);
    const RadixSortReport report = radix_sort(fixture.array);
    EXPECT_EQ(report.first_split_bits, kBits);
    // They are not four times the working memory, which comes on top.
    EXPECT_LE(report.epsilon_bytes, (kBlock << kBits) + (std::size_t{2} << 20));
    EXPECT_LE(report.peak_blocks, fixture.array_blocks + fixture.array_blocks / 4);
    EXPECT_EQ(fixture.result(), expected);
    EXPECT_EQ(other.held_blocks(), 100u);
  }
}

// Whatever the blocks are, beside what the deeper levels work with.
TEST(RadixSortTest, BucketsTakeAShareOfTheArray) {
  const auto values = even_keys(kMany);
  const auto expected = test::sorted(values);
  for (const int lg_block : {14, 15, 16, 17, 18, 20}) {
    SCOPED_TRACE(lg_block);
    const std::size_t block = std::size_t{1} << lg_block;
    Fixture<std::uint64_t> fixture(kMany, block, radix_sort_extra_blocks(8));
    fixture.array.load(values);
    const RadixSortReport report = radix_sort(fixture.array, {.threads = 1});
    EXPECT_EQ(fixture.result(), expected);
    EXPECT_EQ(report.first_split_bits != 0, fixture.array_blocks >= 64);
    EXPECT_LE(report.peak_blocks, fixture.array_blocks + fixture.array_blocks / 4);
  }
}

// Numbers of few values are counted: no block moves, and the table is all that it takes.
TEST(RadixSortTest, FewValuesAreCountedByAnyNumberOfThreads) {
  auto random = test::test_random();
  for (const std::uint64_t few : {1, 2, 16, 64, 1000}) {
    std::vector<std::uint64_t> values(2 * kMany);
    for (std::uint64_t& value : values) value = (random() % few) << 40;
    const auto expected = test::sorted(values, Order::kDescending);
    for (const unsigned threads : {1u, 2u}) {
      SCOPED_TRACE(std::to_string(few) + " values, " + std::to_string(threads) + " threads");
      Fixture<std::uint64_t> fixture(values.size(), std::size_t{64} << 10,
                                     radix_sort_extra_blocks(7));
      fixture.array.load(values);
      const RadixSortReport report =
          radix_sort(fixture.array, {.order = Order::kDescending, .threads = threads});
      EXPECT_EQ(fixture.result(), expected);
      EXPECT_EQ(report.peak_blocks, fixture.array_blocks);
      EXPECT_LE(report.epsilon_bytes, threads * (std::size_t{256} << 10));
    }
  }
}

// Two pieces in order, the second descending, and some keys behind them.
TEST(RadixSortTest, RunsAreMergedWhereTheyLie) {
  auto random = test::test_random();
  const auto expect_merged = [](const auto& values) {
    using Record = typename std::decay_t<decltype(values)>::value_type;
    for (const unsigned threads : {1u, 2u}) {
      SCOPED_TRACE(threads);
      Fixture<Record> fixture(values.size(), std::size_t{64} << 10, radix_sort_extra_blocks(7));
      fixture.array.load(values);
      const RadixSortReport report = radix_sort(fixture.array, {.threads = threads});
      EXPECT_TRUE(test::same_bytes(fixture.result(),
                                   test::stably_sorted_by(values, [](const Record& record) {
                                     if constexpr (std::is_integral_v<Record>) {
                                       return record;
                                     } else {
                                       return record.key;
                                     }
                                   })));
      EXPECT_EQ(report.first_split_bits, 0);
      EXPECT_EQ(report.peak_blocks, fixture.array_blocks);
      // The keys behind the pieces take what sort() does.
      EXPECT_LE(report.epsilon_bytes, threads * (std::size_t{9} << 20));
    }
  };
  std::vector<std::uint64_t> values(kMany);
  std::vector<KeyValue<std::uint64_t, std::uint64_t>> pairs(kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    values[i] = i < kMany / 2 ? 3 * i : i < kMany / 8 * 7 ? 3 * (kMany - i) : random() % kMany;
    pairs[i] = {values[i], i};
  }
  expect_merged(values);
  expect_merged(pairs);
}

// Each of two sorts at once, of arrays that share a pool, measures its own blocks.
TEST(RadixSortTest, SortsOfOnePoolMeasureThemselves) {
  constexpr std::size_t kBlock = std::size_t{64} << 10;
  constexpr int kBits = 6;
  const auto values = even_keys(kMany);
  const auto expected = test::sorted(values);
  const std::size_t array_blocks = (kMany * 8 + kBlock - 1) / kBlock;
  const std::size_t each = array_blocks + radix_sort_extra_blocks(kBits);
  BlockPool blocks(
      {.pool_bytes = 2 * each * kBlock, .block_bytes = kBlock, .warming = Warming::kOnDemand});
  StreamPool pool(blocks, 2 * each);
  std::array<RadixSortReport, 2> reports;
  std::array<bool, 2> right{};
  std::barrier both_loaded(2);
  const auto sort_one = [&](std::size_t index) {
    VanishingArray<std::uint64_t> array(pool, kMany);
    array.load(values);
    both_loaded.arrive_and_wait();
    for (int turn = 0; turn < 3; ++turn) {
      if (turn != 0) std::copy(values.begin(), values.end(), array.data());
      reports[index] = radix_sort(array, {}, kBits);
    }
    right[index] = std::equal(expected.begin(), expected.end(), array.data());
  };
  std::thread other(sort_one, 1);
  sort_one(0);
  other.join();
  for (std::size_t index = 0; index < 2; ++index) {
    EXPECT_TRUE(right[index]);
    EXPECT_EQ(reports[index].first_split_bits, kBits);
    EXPECT_GE(reports[index].peak_blocks, array_blocks);
    EXPECT_LE(reports[index].peak_blocks, array_blocks + (std::size_t{1} << kBits));
    EXPECT_LE(reports[index].epsilon_bytes, kBlock << kBits);
  }
}

// Enough records for two threads, on a pool with and without blocks for buckets.
template <typename Record, typename Sort>
void expect_same_for_any_number_of_threads(const std::vector<Record>& records,
                                           const std::vector<Record>& expected, const Sort& sort) {
  constexpr std::size_t kBlock = std::size_t{256} << 10;
  const std::size_t for_buckets = radix_sort_extra_blocks(8);
  const std::pair<unsigned, std::size_t> threads_and_extra_blocks[] = {
      {1, 0}, {1, for_buckets}, {2, for_buckets}, {7, 0}};
  for (const auto& [threads, extra] : threads_and_extra_blocks) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    Fixture<Record> fixture(records.size(), kBlock, extra);
    fixture.array.load(records);
    const RadixSortReport report = sort(fixture.array, threads);
    EXPECT_TRUE(test::same_bytes(fixture.result(), expected));
    EXPECT_EQ(report.first_split_bits == 0, threads != 1 || extra == 0);
    if (threads > 1) {
      // All of it, since the pool is not used.
      EXPECT_EQ(report.epsilon_bytes, report.working_bytes);
      EXPECT_EQ(report.peak_blocks, fixture.array_blocks);
    }
    EXPECT_EQ(fixture.pool.blocks_in_use(), fixture.array_blocks);
  }
}

TEST(RadixSortTest, NumbersAreTheSameForAnyNumberOfThreads) {
  const auto numbers = even_keys((std::size_t{1} << 21) + 77);
  const auto expected = test::sorted(numbers, Order::kDescending);
  expect_same_for_any_number_of_threads(numbers, expected, [](auto& array, unsigned threads) {
    return radix_sort(array, {.order = Order::kDescending, .threads = threads});
  });
}

// Few keys: where the order of equal ones were left open, buckets and threads would leave others.
TEST(RadixSortTest, PairsAreTheSameForAnyNumberOfThreads) {
  using Kind = Pair<std::uint64_t, std::uint64_t>;
  auto bits = even_keys((std::size_t{1} << 20) + 77);
  for (std::uint64_t& key : bits) key &= ~std::uint64_t{0} << 48;
  const auto pairs = records_of<Kind>(bits);
  const auto expected = test::stably_sorted_by(pairs, kKeyOf<Kind>);
  expect_same_for_any_number_of_threads(pairs, expected, [](auto& array, unsigned threads) {
    return radix_sort(array, {.threads = threads});
  });
}

TEST(RadixSortTest, TheKeyIsAskedByAllThreads) {
  using Kind = Wide<std::uint64_t, 24>;
  auto bits = even_keys((std::size_t{1} << 20) + 77);
  for (std::uint64_t& key : bits) key &= ~std::uint64_t{0} << 44;
  const auto records = records_of<Kind>(bits);
  const auto expected = test::stably_sorted_by(records, kKeyOf<Kind>);
  expect_same_for_any_number_of_threads(records, expected, [](auto& array, unsigned threads) {
    std::atomic<int> foreign{0};
    const auto caller = std::this_thread::get_id();
    thread_local bool counted = false;
    counted = false;
    const auto key = [&](const Kind::Record& record) {
      if (!counted) {
        counted = true;
        foreign += std::this_thread::get_id() != caller;
      }
      return Kind::key(record);
    };
    const RadixSortReport report = radix_sort(array, key, {.threads = threads});
    EXPECT_EQ(foreign.load() != 0, threads > 1);
    return report;
  });
}

// An array whose buckets were asked for gets them.
TEST(RadixSortTest, OneThreadFillsBuckets) {
  const auto numbers = even_keys((std::size_t{1} << 21) + 77);
  Fixture<std::uint64_t> fixture(numbers.size(), std::size_t{256} << 10,
                                 radix_sort_extra_blocks(6));
  fixture.array.load(numbers);
  EXPECT_EQ(radix_sort(fixture.array, {.threads = 2}, 6).first_split_bits, 6);
}

TEST_OF_ONE_THREAD(RadixSortTest, AddressSpaceIsABudget) {
  constexpr std::size_t kBlock = std::size_t{2} << 20;
  BlockPool blocks(
      {.pool_bytes = 4 * kBlock, .block_bytes = kBlock, .warming = Warming::kOnDemand});
  StreamPool pool(blocks, 4);
  constexpr std::uint64_t kCount = std::uint64_t{1} << 37;  // 2^40 bytes: 2^48 for 2^8 buckets
  VanishingArray<std::uint64_t> array(pool, kCount);
  array.resize(kCount);
  EXPECT_TRUE(test::fails([&] { radix_sort(array, {}, 8); }, ENOMEM,
                          {"47 bits of address space", "may be 6 at most"}));
  EXPECT_EQ(pool.blocks_in_use(), 0u);
  array.resize(0);
  EXPECT_TRUE(test::fails([&] { radix_sort(array, {}, 9); }, EINVAL, {"1 to 8 bits"}));
  EXPECT_TRUE(test::fails([&] { radix_sort(array, {}, -1); }, EINVAL, {"1 to 8 bits"}));
}

TEST_OF_ONE_THREAD(RadixSortTest, AFewRecords) {
  constexpr std::size_t kBlock = kMinBlockBytes;
  for (const std::size_t count : {0, 1, 2, 100, 511, 512, 513, 5000}) {
    auto values = shapes<std::uint64_t>()[1].make(count);
    Fixture<std::uint64_t> fixture(count, kBlock, radix_sort_extra_blocks(8));
    fixture.array.load(values);
    radix_sort(fixture.array, {}, 8);
    std::sort(values.begin(), values.end());
    EXPECT_EQ(fixture.result(), values);
  }
}

std::atomic<long> moves{0};
std::atomic<long> fail_at{-1};
int fail_one_move(os::MemoryCall call) noexcept {
  if (call != os::MemoryCall::kMove) return 0;
  return moves.fetch_add(1) == fail_at ? ENOMEM : 0;
}

template <typename Kind>
class RadixSortFailure : public testing::Test {
 protected:
  void TearDown() override { os::set_failure_hook(nullptr); }
};
using FailureKinds =
    test::TypesOf<testing::Types<Bare<std::uint64_t>, Bare<double>,
                                 Pair<std::int64_t, std::uint64_t>, Wide<std::int32_t, 12>>,
                  testing::Types<Bare<double>, Wide<std::int32_t, 12>>>;
TYPED_TEST_SUITE(RadixSortFailure, FailureKinds);

TYPED_TEST_OF_ONE_THREAD(RadixSortFailure, OfAnyMoveLeavesAPermutation) {
  using Record = typename TypeParam::Record;
  constexpr std::size_t kBlock = kMinBlockBytes;
  // Eight buckets of two to three blocks; and one that holds a fifth, sorted where it is.
  const std::size_t count = 20 * kBlock / sizeof(Record) + 77;
  const auto kinds = shapes<KeyBits<typename TypeParam::Key>>();
  for (const std::size_t shape : {std::size_t{0}, kinds.size() - 4}) {
    const auto records = records_of<TypeParam>(kinds[shape].make(count));
    const SortOptions options{.order = Order::kDescending, .stable = true};
    constexpr int kBits = 3;
    const auto expected = test::stably_sorted_by(records, kKeyOf<TypeParam>, options.order);
    auto all_records = records;
    order_equal_keys(all_records);
    Fixture<Record> fixture(count, kBlock, radix_sort_extra_blocks(kBits));
    fixture.array.load(records);
    moves = 0;
    fail_at = -1;
    os::set_failure_hook(&fail_one_move);
    EXPECT_EQ(TypeParam::sort(fixture.array, options, kBits).first_split_bits, kBits);
    const long all = moves;
    ASSERT_GT(all, 50);
    int thrown = 0;
    for (long at = 0; at < all; ++at) {
      os::set_failure_hook(nullptr);
      fixture.array.load(records);
      moves = 0;
      fail_at = at;
      os::set_failure_hook(&fail_one_move);
      const int error = test::error_of([&] { TypeParam::sort(fixture.array, options, kBits); });
      EXPECT_TRUE(error == 0 || error == ENOMEM) << error;
      thrown += error != 0;
      os::set_failure_hook(nullptr);
      auto result = fixture.result();
      if (error != 0) order_equal_keys(result);
      ASSERT_TRUE(test::same_bytes(result, error != 0 ? all_records : expected))
          << "move " << at << " of " << all;
    }
    EXPECT_GT(thrown, 20);
  }
}

// The drop-in takes the library's own buffer, too, with room to move its blocks and without.
TEST_OF_ONE_THREAD(RadixSortTest, SortTakesAVanishingArray) {
  auto random = test::test_random();
  for (const std::size_t extra : {std::size_t{0}, radix_sort_extra_blocks(8)}) {
    constexpr std::size_t kCount = (std::size_t{1} << 20) + 1234;
    Fixture<std::uint64_t> f(kCount, 64 << 10, extra);
    std::vector<std::uint64_t> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) f.array.data()[i] = expected[i] = random();
    f.array.resize(kCount);
    sort(f.array, {.order = Order::kDescending});
    std::sort(expected.begin(), expected.end(), std::greater<>());
    EXPECT_EQ(f.result(), expected);
    sort(f.array, [](std::uint64_t word) { return word; }, {.threads = 1});
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(f.result(), expected);
  }
}

}  // namespace

}  // namespace vortex::radix_sort_test
