// Orders of records, sorting by them, and the outputs that sorted ones pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "sort/record/format_order.h"
#include "sort/record/record_output.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/merge/record_kernels.h"
#include "vortex/detail/merge/record_sort.h"
#include "vortex/record_order.h"

namespace vortex::test::record_order_test { namespace {

using namespace detail;

// A stream takes a block away when a later one is touched. So a room ends where the block ends in
// which its first record ends: whole records, one at least, and all that fit.
TEST(RecordOutput, ARoomEndsWithTheBlock) {
  auto random = test_random();
  for (int round = 0; round < 3000; ++round) {
    const std::size_t block_bytes = std::size_t{1} << (4 + random() % 18);
    const std::size_t record_bytes = 1 + random() % block_bytes;
    const std::uint64_t done = random() % 1000 * record_bytes;
    const std::size_t most = record_bytes * (1 + random() % 5000);
    SCOPED_TRACE(::testing::Message() << record_bytes << " in " << block_bytes << " at " << done
                                      << ", at most " << most);
    const std::size_t room = room_in_block(done, record_bytes, block_bytes, most);
    ASSERT_GE(room, record_bytes);
    ASSERT_EQ(room % record_bytes, 0U);
    ASSERT_LE(room, std::min(most, std::max(kMaxRoomBytes, record_bytes)));
    const auto last_block = [&](std::uint64_t end) { return (end - 1) / block_bytes; };
    ASSERT_EQ(last_block(done + room), last_block(done + record_bytes));
    const bool more_would_fit = room + record_bytes <= std::min(most, kMaxRoomBytes) &&
                                last_block(done + room + record_bytes) == last_block(done + room);
    ASSERT_FALSE(more_would_fit);
  }
}

TEST(RecordOutput, PointersAreFilledInOrder) {
  auto random = test_random();
  for (const std::size_t record_bytes : {1U, 8U, 100U, 4096U}) {
    const RecordList list = make_records(Shape::kRandom, record_bytes, 3000, random);
    std::vector<std::byte> forwards(list.bytes.size()), backwards(list.bytes.size());
    PointerOutput out(forwards.data(), record_bytes, 4096);
    append_records(out, list.at(0), list.count(), record_bytes);
    EXPECT_TRUE(forwards == list.bytes);
    PointerOutput back(backwards.data(), record_bytes, 4096);
    append_reversed(back, list.at(0), list.count(), record_bytes);
    for (std::size_t i = 0; i < list.count(); ++i) {
      ASSERT_EQ(std::memcmp(backwards.data() + i * record_bytes, list.at(list.count() - 1 - i),
                            record_bytes),
                0);
    }
  }
}

TEST(RecordOutput, OnlyTheFirstOfEqualRecordsIsPassedOn) {
  auto random = test_random();
  for (const Shape shape : kShapes) {
    for (const std::size_t record_bytes : {1U, 8U, 16U, 100U}) {
      const FormatOrder order(RecordFormat(record_bytes, {{0, 1, {}, false}}));
      const RecordList list =
          stably_sorted(order, make_records(shape, record_bytes, random() % 2000, random));
      RecordCollector collector(record_bytes);
      FirstOfEqual first(order, collector);
      append_records(first, list.bytes.data(), list.count(), record_bytes);
      const RecordList expected = firsts_of_equal(order, list);
      ASSERT_TRUE(same_bytes(collector.list.bytes, expected.bytes));
      ASSERT_EQ(first.records(), expected.count());
    }
  }
}

static_assert(OrderRules<FormatRules>);
static_assert(OrderRules<ComparatorRules<std::uint64_t>>);

// Every type in both directions, alone and followed by another key, against the format itself.
TEST(RecordOrder, FormatOrderAgreesWithTheFormat) {
  auto random = test_random();
  const std::vector<std::string> first = {"3:8:u64",   "3:8:u64be", "3:8:i64", "3:8:i64be",
                                          "3:8:f64",   "3:8:f64be", "3:8",     "3:10",
                                          "3:7",       "3:1",       "3:4:u32", "3:4:f32",
                                          "3:4:i32be", "3:4:f32be", "3:2:i16", "3:1:i8"};
  for (const std::string& text : first) {
    for (const char* direction : {"", ":desc"}) {
      for (const bool second : {false, true}) {
        const std::string type =
            *direction != 0 && text.find_first_of("uif") == std::string::npos ? ":bytes" : "";
        std::vector<RecordKey> keys = {parse_record_key(text + type + direction)};
        if (second) keys.push_back(parse_record_key("0:2"));
        const RecordFormat format(13, keys);
        const FormatOrder order(format);
        SCOPED_TRACE(to_string(format));
        EXPECT_EQ(order.record_bytes(), 13u);
        EXPECT_EQ(order.leading_bits_decide(), format.leading_bits_decide());
        std::byte a[13], b[13];
        for (int i = 0; i < 500; ++i) {
          const unsigned mask = i % 2 == 0 ? 0xff : 0x81;
          for (auto* record : {a, b}) {
            for (std::size_t at = 0; at < 13; ++at) {
              record[at] = static_cast<std::byte>(random() & mask);
            }
          }
          if (i % 3 == 0) std::memcpy(b + 3, a + 3, 10);
          ASSERT_EQ(order.leading_bits(a), format.leading_bits(a));
          ASSERT_EQ(order.less(a, b), format.compare(a, b) < 0);
          ASSERT_EQ(order.less(b, a), format.compare(b, a) < 0);
        }
      }
    }
  }
}

TEST(RecordOrder, ComparatorOrderReadsRecordsAtAnyAddress) {
  struct Pair {
    std::uint64_t key;
    std::uint64_t value;
  };
  const auto by_key = [](const Pair& a, const Pair& b) { return a.key > b.key; };
  const ComparatorOrder<Pair, decltype(by_key)> order(by_key);
  EXPECT_EQ(order.record_bytes(), 16u);
  EXPECT_FALSE(order.leading_bits_decide());
  alignas(16) std::byte bytes[64];
  for (std::size_t shift = 0; shift < 16; ++shift) {
    const Pair small{1, 9}, large{2, 3};
    std::memcpy(bytes + shift, &small, sizeof small);
    std::memcpy(bytes + shift + 17, &large, sizeof large);
    EXPECT_EQ(order.leading_bits(bytes + shift), order.leading_bits(bytes + shift + 17));
    EXPECT_FALSE(order.less(bytes + shift, bytes + shift + 17));
    EXPECT_TRUE(order.less(bytes + shift + 17, bytes + shift));
  }
}

TEST(RecordOrder, CopiesWhatComesBefore) {
  auto random = test_random();
  for (int round = 0; round < 400 && !HasFailure(); ++round) {
    const std::size_t record_bytes = random_record_bytes(random);
    const FormatOrder order(random() % 4 == 0 && record_bytes % 8 == 0
                                ? RecordFormat(record_bytes, {parse_record_key("0:8:u64")})
                                : random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()));
    const RecordList list = make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                                         1 + random() % 3000, random);
    const std::byte* const bound = list.at(random() % list.count());
    RecordCollector expected(record_bytes);
    for (std::size_t i = 0; i < list.count(); ++i) {
      if (order.less(list.at(i), bound)) expected.append(list.at(i));
    }
    std::vector<std::byte> found(list.bytes.size());
    found.resize(record_bytes *
                 order.copy_before(bound, list.bytes.data(), list.count(), found.data()));
    EXPECT_TRUE(same_bytes(found, expected.list.bytes));
  }
}

// Buckets that each have an equal part of a memory, and no more.
class FixedRooms final : public OpenBuckets {
 public:
  FixedRooms(std::span<std::byte> memory, unsigned buckets)
      : OpenBuckets(buckets), memory_(memory) {
    for (unsigned i = 0; i < buckets; ++i) end(i) = {begin(i), begin(i + 1)};
  }
  bool extend(std::size_t) override { return false; }
  std::size_t bytes(std::size_t bucket) const {
    return static_cast<std::size_t>(end(bucket).cursor - begin(bucket));
  }

 private:
  std::byte* begin(std::size_t bucket) const {
    return memory_.data() + memory_.size() / size() * bucket;
  }
  const std::span<std::byte> memory_;
};

// Words and pairs lie in their buckets with their keys encoded; every kind and direction comes out
// as it went in, in order, whether the scratch suffices for that or not.
TEST(RecordOrder, KeysAreDecodedOnTheirWayOutOfABucket) {
  auto random = test_random();
  struct Place {
    std::size_t record_bytes, offset;
  };
  for (const auto& [record_bytes, offset] : {Place{8, 0}, Place{16, 0}, Place{16, 8}}) {
    for (const char* type : {"u64", "u64be", "i64", "i64be", "f64", "f64be", "bytes"}) {
      for (const bool descending : {false, true}) {
        for (const Shape shape : kShapes) {
          const FormatOrder order(
              RecordFormat(record_bytes, {{offset, 8, parse_key_type(type, "key"), descending}}));
          SCOPED_TRACE(to_string(order.format()));
          const RecordList list = make_records(shape, record_bytes, random() % 3000, random);
          std::vector<std::uint64_t> words(list.bytes.size() / 8);
          FixedRooms bucket(std::as_writable_bytes(std::span(words)), 1);
          const BucketSplitters splitters(order, 1, 1, {});
          ASSERT_EQ(order.scatter(list.bytes.data(), list.count(), splitters, bucket),
                    list.count());
          const RecordList sorted = stably_sorted(order, list);
          if (const std::size_t count = list.count(); count > 0) {
            const auto* const records = reinterpret_cast<const std::byte*>(words.data());
            const std::byte* const greatest = order.greatest_in_bucket(records, count);
            ASSERT_EQ(order.leading_bits_in_bucket(greatest),
                      order.leading_bits(sorted.at(count - 1)));
            const auto place = static_cast<std::size_t>(greatest - records);
            ASSERT_FALSE(order.less(list.bytes.data() + place, sorted.at(count - 1)));
            const std::byte* const least = order.least_in_bucket(records, count);
            ASSERT_EQ(order.leading_bits_in_bucket(least), order.leading_bits(sorted.at(0)));
            const std::uint64_t border = order.leading_bits(sorted.at(random() % count));
            std::vector<std::uint64_t> low(words.size()), high(words.size());
            const std::size_t less = order.divide_bucket(records, count, border, nullptr,
                                                         reinterpret_cast<std::byte*>(low.data()),
                                                         reinterpret_cast<std::byte*>(high.data()));
            const std::size_t each = record_bytes / 8;
            std::size_t at_low = 0, at_high = 0;
            for (std::size_t i = 0; i < count; ++i) {
              auto& to = order.leading_bits(list.at(i)) < border ? at_low : at_high;
              const auto& part = &to == &at_low ? low : high;
              ASSERT_TRUE(std::equal(&words[i * each], &words[i * each] + each, &part[to * each]));
              ++to;
            }
            ASSERT_EQ(less, at_low);
          }
          const std::size_t least = least_sort_scratch_bytes(list.count());
          std::vector<std::byte> scratch(random() % 2 == 0 ? least : (std::size_t{1} << 20));
          RecordCollector out(record_bytes);
          order.sort_bucket(reinterpret_cast<std::byte*>(words.data()), list.count(), scratch, out);
          ASSERT_TRUE(same_bytes(out.list.bytes, sorted.bytes));
        }
      }
    }
  }
}

// What is counted for each bucket has place there when it comes.
TEST(RecordOrder, CountsWhatItScatters) {
  auto random = test_random();
  for (int round = 0; round < (long_tests() ? 20'000 : 1500); ++round) {
    const std::size_t record_bytes =
        random() % 3 == 0 ? random_record_bytes(random) : 8 + random() % 2 * 8;
    constexpr const char* kTypes[] = {"u64", "u64be", "i64", "i64be", "f64", "f64be", "bytes"};
    const FormatOrder order(
        record_bytes % 8 != 0 || random() % 4 == 0
            ? random_format(record_bytes, random)
            : RecordFormat(record_bytes,
                           {{random() % (record_bytes / 8) * 8, 8,
                             parse_key_type(kTypes[random() % 7], "key"), random() % 2 == 0}}));
    SCOPED_TRACE(to_string(order.format()));
    const RecordList list = make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                                         1 + random() % 200, random);
    const auto buckets = static_cast<unsigned>(1 + random() % 20);
    std::vector<std::byte> kept(random() % 2 == 0 ? 0
                                                  : BucketSplitters::kept_bytes(order, buckets));
    BucketSplitters splitters(order, buckets, buckets, kept);
    if (random() % 3 != 0) {
      const RecordList sample = stably_sorted(order, list);
      splitters.begin_choosing(sample.count());
      splitters.note(sample.bytes.data(), sample.count());
      splitters.end_choosing();
    }
    const std::size_t first = random() % list.count(), count = list.count() - first;
    std::vector<std::uint32_t> counts(buckets, 3);
    order.count_for_buckets(list.at(first), count, splitters, counts);
    std::vector<std::byte> memory(buckets * list.bytes.size());
    FixedRooms rooms(memory, buckets);
    ASSERT_EQ(order.scatter(list.at(first), count, splitters, rooms), count);
    for (unsigned i = 0; i < buckets; ++i) {
      ASSERT_EQ(counts[i] - 3, rooms.bytes(i) / record_bytes)
          << "bucket " << i << " of " << buckets;
    }
  }
}

void expect_sorted(const RecordOrder& order, const RecordList& list, std::size_t scratch_bytes) {
  RecordList work = list;
  std::vector<std::byte> scratch(scratch_bytes);
  RecordCollector out(list.record_bytes);
  order.sort(work.bytes.data(), work.count(), scratch, out);
  ASSERT_EQ(out.list.bytes, stably_sorted(order, list).bytes)
      << list.count() << " records of " << list.record_bytes << " bytes, scratch of "
      << scratch_bytes;
}

std::vector<std::size_t> scratches(std::size_t count) {
  const std::size_t least = least_sort_scratch_bytes(count);
  return {least, 2 * least + 5, count * 4 + least, count * 16 + 16, count * 32 + 16};
}

TEST(RecordSort, LikeStableSort) {
  auto random = test_random();
  for (const std::size_t record_bytes : {1u, 2u, 7u, 8u, 9u, 16u, 24u, 100u, 255u, 257u, 1000u}) {
    for (const Shape shape : kShapes) {
      const std::size_t count = random() % 3 == 0 ? random() % 40 : random() % 3000;
      const RecordList list = make_records(shape, record_bytes, count, random);
      const FormatOrder order(random_format(record_bytes, random));
      SCOPED_TRACE(to_string(order.format()));
      for (const std::size_t scratch : scratches(count)) {
        ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, scratch));
      }
    }
  }
}

// Outliers on every level, with as many records as make them levels.
TEST(RecordSort, NestedOutliers) {
  auto random = test_random();
  for (const std::size_t record_bytes : {16u, 24u, 100u}) {
    for (int turn = 0; turn < 4; ++turn) {
      const RecordList list = make_records(Shape::kNestedOutliers, record_bytes, 23000, random);
      const FormatOrder order(RecordFormat(record_bytes, {{0, 8, {}, false}}));
      for (const std::size_t scratch : scratches(list.count())) {
        ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, scratch));
      }
    }
  }
}

// Counting passes of several levels, on every set of instructions.
TEST(RecordSort, ManyRecords) {
  auto random = test_random();
  const Isa best = best_isa();
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!use_isa(isa)) continue;
    for (const Shape shape : kShapes) {
      const RecordList list = make_records(shape, 12, 60000, random);
      const FormatOrder order(RecordFormat(12, {{0, 8, {}, false}}));
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, 60000 * 32 + 16));
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, 60000 * 16 + 16));
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, 60000));
    }
  }
  use_isa(best);
}

TEST(RecordSort, ByComparator) {
  auto random = test_random();
  using Pair = KeyAndValue;
  const auto by_low_bits = [](const Pair& a, const Pair& b) { return a.key % 64 < b.key % 64; };
  const ComparatorOrder<Pair, decltype(by_low_bits)> order(by_low_bits);
  for (const std::size_t count : {0u, 1u, 2u, 3u, 100u, 5000u}) {
    const RecordList list = make_records(Shape::kRandom, 16, count, random);
    for (const std::size_t scratch : scratches(count)) {
      ASSERT_NO_FATAL_FAILURE(expect_sorted(order, list, scratch));
    }
  }
}

TEST(RecordSort, SaysHowMuchScratchItTakes) {
  auto random = test_random();
  RecordList list = make_records(Shape::kRandom, 16, 10000, random);
  std::vector<std::byte> scratch(least_sort_scratch_bytes(10000) - 1);
  RecordCollector out(16);
  EXPECT_TRUE(fails(
      [&] { FormatOrder(RecordFormat(16)).sort(list.bytes.data(), 10000, scratch, out); }, ENOMEM));
  EXPECT_EQ(out.list.count(), 0u);
}

// One splitter is rounded up to the end of all bits, where no cell of the table begins.
TEST(BucketSplitters, StayInOrder) {
  const FormatOrder order(RecordFormat(8, {{0, 8, parse_key_type("u64", "key"), false}}));
  constexpr std::uint64_t kGreatest = ~std::uint64_t{0};
  const std::uint64_t sample[] = {0, kGreatest / 4, kGreatest / 2, kGreatest - 1};
  BucketSplitters splitters(order, 4, 4, {});
  splitters.begin_choosing(std::size(sample));
  splitters.note(reinterpret_cast<const std::byte*>(sample), std::size(sample));
  splitters.end_choosing();
  ASSERT_EQ(splitters.buckets(), 4u);
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_LT(splitters.border(i - 1).bits, splitters.border(i).bits);
  }
}

}}  // namespace vortex::test::record_order_test
