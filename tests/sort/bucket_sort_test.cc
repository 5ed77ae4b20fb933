// Buckets of words and pairs, sorted to an output, against std::stable_sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sort/record/coded_record.h"
#include "sort/record/coded_sort.h"
#include "sort/record/format_order.h"
#include "tests/sort/record_lists.h"
#include "tests/support/cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/error.h"

namespace vortex::bucket_sort_test { namespace {

using namespace detail;

using test::RecordCollector;
using test::RecordList;
using test::Shape;

// The shapes are numbers in the first eight bytes, the first of which counts most.
void turn_to_format(RecordList& list, const RecordKey& key) {
  for (std::size_t at = 0; at < list.bytes.size(); at += list.record_bytes) {
    std::byte* const record = list.bytes.data() + at;
    if (key.type.kind != KeyKind::kBytes && key.type.byte_order == ByteOrder::kLittleEndian) {
      std::reverse(record, record + 8);
    }
    if (key.offset == 8) std::swap_ranges(record, record + 8, record + 8);
  }
}

// As scatter() leaves records in a bucket.
std::vector<std::uint64_t> bucket_of(const FormatOrder& order, const RecordList& list) {
  std::vector<std::uint64_t> bucket(list.bytes.size() / sizeof(std::uint64_t) + 1);
  if (CodedWord::suits(order.rules())) {
    CodedWord(order.rules()).encode(list.bytes.data(), list.count(), bucket.data());
  } else if (CodedPair::suits(order.rules())) {
    CodedPair(order.rules())
        .encode(list.bytes.data(), list.count(), reinterpret_cast<Pair64*>(bucket.data()));
  } else {
    std::copy(list.bytes.begin(), list.bytes.end(), reinterpret_cast<std::byte*>(bucket.data()));
  }
  return bucket;
}

void expect_sorted(const FormatOrder& order, const RecordList& list, std::span<std::byte> scratch) {
  std::vector<std::uint64_t> bucket = bucket_of(order, list);
  RecordCollector out(list.record_bytes);
  order.sort_bucket(reinterpret_cast<std::byte*>(bucket.data()), list.count(), scratch, out);
  ASSERT_TRUE(test::same_bytes(out.list.bytes, stably_sorted(order, list).bytes));
}

// The records go back to where they were.
class InPlace final : public RecordOutput {
 public:
  explicit InPlace(std::byte* records) : at_(records) {}
  std::span<std::byte> room(std::size_t most_bytes) override { return {at_, most_bytes}; }
  void written(std::size_t bytes) override { at_ += bytes; }

 private:
  std::byte* at_;
};

// With the scratch that the order asks for and no byte more.
void expect_sorted_in_place(const FormatOrder& order, const RecordList& list) {
  std::vector<std::uint64_t> bucket = bucket_of(order, list);
  auto* const records = reinterpret_cast<std::byte*>(bucket.data());
  const auto scratch_bytes = order.scratch_to_sort_in_place(list.count());
  ASSERT_TRUE(scratch_bytes);
  std::vector<std::byte> scratch(*scratch_bytes);
  InPlace out(records);
  order.sort_bucket(records, list.count(), scratch, out);
  ASSERT_TRUE(
      test::same_bytes(stably_sorted(order, list).bytes.data(), records, list.bytes.size()));
}

class BucketSortTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  std::size_t record_bytes() const { return GetParam(); }

  template <typename Random>
  FormatOrder random_order(Random& random) const {
    constexpr const char* kTypes[] = {"u64", "u64be", "i64", "i64be", "f64", "f64be", "bytes"};
    return FormatOrder(
        RecordFormat(record_bytes(), {{.offset = random() % (record_bytes() / 8) * 8,
                                       .length = 8,
                                       .type = parse_key_type(kTypes[random() % 7], "key"),
                                       .descending = random() % 2 == 0}}));
  }
};
INSTANTIATE_TEST_SUITE_P(, BucketSortTest, ::testing::Values(8, 16),
                         [](const auto& info) { return "Bytes" + std::to_string(info.param); });

TEST_P_OF_ONE_THREAD(BucketSortTest, EveryShapeLikeStableSort) {
  auto random = test::test_random();
  const std::size_t fits_cache = (std::size_t{192} << 10) / record_bytes();
  for (const Shape shape : test::kShapes) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, kMaxSmallSort + 1,
          fits_cache, fits_cache + 1, 3 * fits_cache + std::size_t{random() % 100},
          std::size_t{200001}}) {
      const FormatOrder order = random_order(random);
      SCOPED_TRACE(to_string(order.format()) + ", " + std::to_string(count) + " of shape " +
                   std::to_string(static_cast<int>(shape)));
      RecordList list = test::make_records(shape, record_bytes(), count, random);
      turn_to_format(list, order.format().keys().front());
      std::vector<std::byte> scratch((std::size_t{1} << 18) + count * record_bytes() + 64);
      const std::size_t skipped = random() % 64;
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, std::span(scratch).subspan(skipped)));
      ASSERT_NO_FATAL_FAILURE(expect_sorted_in_place(order, list));
    }
  }
}

// Words that lie in the bucket as they do in a file take ways of their own.
TEST_P_OF_ONE_THREAD(BucketSortTest, InPlaceAsTheyAre) {
  auto random = test::test_random();
  const FormatOrder order(
      RecordFormat(record_bytes(), {{0, 8, parse_key_type("u64", "key"), false}}));
  for (const std::size_t count : {100U, 5'000U, 12'000U, 60'000U}) {
    for (const Shape shape : test::kShapes) {
      const RecordList list = test::make_records(shape, record_bytes(), count, random);
      ASSERT_NO_FATAL_FAILURE(expect_sorted_in_place(order, list)) << count;
    }
  }
}

// Scratch in which lists may have room between them, from hardly any to plenty, wherever it begins.
// An eighth of the records looks even, and what follows need not be.
TEST_P_OF_ONE_THREAD(BucketSortTest, InRoomyScratch) {
  auto random = test::test_random();
  const FormatOrder order(
      RecordFormat(record_bytes(), {{0, 8, parse_key_type("u64be", "key"), false}}));
  constexpr std::byte kUntouched{0x5a};
  constexpr std::size_t kAlignment = 256;
  for (const Shape shape : test::kShapes) {
    for (const bool late : {false, true}) {
      const std::size_t count = 40'000 + random() % 160'000;
      RecordList list = test::make_records(shape, record_bytes(), count, random);
      if (late) {
        const RecordList even = test::make_records(Shape::kRandom, record_bytes(), count, random);
        const auto some = static_cast<std::ptrdiff_t>(count / 2 * record_bytes());
        std::copy(even.bytes.begin(), even.bytes.begin() + some, list.bytes.begin());
      }
      std::vector<std::uint64_t> bucket = bucket_of(order, list);
      const std::size_t bytes = *order.scratch_to_sort_in_place(count) + (std::size_t{400} << 10) +
                                random() % (count * record_bytes() / 2);
      std::vector<std::byte> memory(bytes + 3 * kAlignment, kUntouched);
      const std::size_t skipped = kAlignment -
                                  reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment +
                                  64 * (random() % 4);
      RecordCollector out(record_bytes());
      order.sort_bucket(reinterpret_cast<std::byte*>(bucket.data()), count,
                        std::span(memory).subspan(skipped, bytes), out);
      ASSERT_TRUE(test::same_bytes(out.list.bytes, stably_sorted(order, list).bytes))
          << count << " of shape " << static_cast<int>(shape);
      ASSERT_TRUE(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(skipped + bytes),
                              memory.end(), [](std::byte b) { return b == kUntouched; }));
    }
  }
}

// Those that no scratch holds: by one thread and by several, which get memory of their own.
TEST_P(BucketSortTest, LargeOnesWhereTheyAre) {
  auto random = test::test_random();
  for (const Shape shape : test::kShapes) {
    const unsigned threads = std::array{1U, 2U, 7U}[random() % 3];
    const FormatOrder order = random_order(random);
    const std::size_t count = random() % 4 == 0 ? random() % 5000 : 1'100'000;
    SCOPED_TRACE(to_string(order.format()) + ", " + std::to_string(count) + " of shape " +
                 std::to_string(static_cast<int>(shape)) + ", threads " + std::to_string(threads));
    RecordList list = test::make_records(shape, record_bytes(), count, random);
    turn_to_format(list, order.format().keys().front());
    std::vector<std::uint64_t> bucket = bucket_of(order, list);
    auto* const records = reinterpret_cast<std::byte*>(bucket.data());
    ASSERT_TRUE(order.sort_large_bucket(records, count, threads));
    ASSERT_TRUE(
        test::same_bytes(stably_sorted(order, list).bytes.data(), records, list.bytes.size()));
    EXPECT_TRUE(order.bytes_to_sort_large_bucket(count, threads));
  }
}

TEST_OF_ONE_THREAD(BucketSort, OtherRecordsAreNotSortedInPlace) {
  EXPECT_FALSE(FormatOrder(RecordFormat(100)).scratch_to_sort_in_place(10));
  EXPECT_FALSE(FormatOrder(RecordFormat(16)).scratch_to_sort_in_place(10));
  EXPECT_FALSE(FormatOrder(RecordFormat(16)).bytes_to_sort_large_bucket(10, 1));
  EXPECT_FALSE(FormatOrder(RecordFormat(16)).sort_large_bucket(nullptr, 0, 1));
  EXPECT_FALSE(FormatOrder(RecordFormat(8, {{0, 4, {}, false}})).scratch_to_sort_in_place(10));
}

// A bucket that is too large for the scratch is sorted another way.
TEST_P_OF_ONE_THREAD(BucketSortTest, AnyScratch) {
  auto random = test::test_random();
  const std::size_t count = 40000;
  for (const std::size_t scratch_bytes : {std::size_t{1} << 14, std::size_t{240} << 10,
                                          std::size_t{600} << 10, std::size_t{1} << 20}) {
    const FormatOrder order = random_order(random);
    SCOPED_TRACE(to_string(order.format()) + ", scratch " + std::to_string(scratch_bytes));
    RecordList list = test::make_records(Shape::kRandom, record_bytes(), count, random);
    turn_to_format(list, order.format().keys().front());
    std::vector<std::byte> scratch(scratch_bytes);
    ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, scratch));
  }
}

TEST_P_OF_ONE_THREAD(BucketSortTest, PassesOnWhatTheOutputThrows) {
  auto random = test::test_random();
  const FormatOrder order = random_order(random);
  const RecordList list = test::make_records(Shape::kRandom, record_bytes(), 100000, random);
  std::vector<std::uint64_t> bucket = bucket_of(order, list);
  std::vector<std::byte> scratch(std::size_t{4} << 20);
  test::WatchedOutput out(record_bytes(), 1000, [&](std::size_t done) {
    if (done >= list.bytes.size() / 2) throw Error(ENOSPC, "full");
  });
  EXPECT_THROW(
      order.sort_bucket(reinterpret_cast<std::byte*>(bucket.data()), list.count(), scratch, out),
      Error);
}

// A bucket of 2^32 words takes 32 GiB, and its scratch as much, so what counts them is looked at
// instead.
TEST_OF_ONE_THREAD(BucketSort, CountsAsManyRecordsAsMemoryHolds) {
  using WordCount = CodedSort<CodedWord>::Count;
  using PairCount = CodedSort<CodedPair>::Count;
  EXPECT_GE(std::numeric_limits<WordCount>::max(), SIZE_MAX / sizeof(CodedWord::Item));
  EXPECT_GE(std::numeric_limits<PairCount>::max(), SIZE_MAX / sizeof(CodedPair::Item));
}

}  // namespace

}  // namespace vortex::bucket_sort_test
