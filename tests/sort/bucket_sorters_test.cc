#include "sort/runs/bucket_sorters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/sort/pushed_sorts.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/thread/team_counts.h"
#include "vortex/detail/merge/record_kernels.h"
#include "vortex/external_sort.h"
#include "vortex/sorter.h"
#include "vortex/thread/activity.h"

namespace vortex::bucket_sorters_test { namespace {

using test::RecordCollector;
using test::RecordList;
using test::Shape;

// Buckets of records, by their first eight bytes unless it is said, which lie there as they are.
struct Buckets {
  template <typename Random>
  Buckets(std::size_t record_bytes, std::vector<std::size_t> counts, Random& random,
          Shape shape = Shape::kRandom, const char* key = "0:8:u64")
      : order(RecordFormat(record_bytes, {parse_record_key(key)})) {
    for (const std::size_t count : counts) {
      lists.push_back(test::make_records(shape, record_bytes, count, random));
      memory.push_back(std::make_unique<std::uint64_t[]>(lists.back().bytes.size() / 8 + 1));
      std::ranges::copy(lists.back().bytes, reinterpret_cast<std::byte*>(memory.back().get()));
    }
  }

  std::size_t records_of_all() const {
    std::size_t records = 0;
    for (const RecordList& list : lists) records += list.count();
    return records;
  }
  std::byte* records(std::size_t i) const { return reinterpret_cast<std::byte*>(memory[i].get()); }
  std::size_t count(std::size_t i) const { return lists[i].count(); }

  FormatOrder order;
  std::vector<RecordList> lists;
  std::vector<std::unique_ptr<std::uint64_t[]>> memory;
};

// Takes all buckets and checks them. Returns which the sorters had sorted.
std::vector<bool> expect_sorted(const Buckets& buckets, unsigned threads,
                                std::size_t scratch_bytes) {
  std::vector<std::byte> scratch(scratch_bytes);
  const std::size_t all = buckets.lists.size();
  BucketSorters sorters(buckets.order, buckets.records_of_all(), all, threads, scratch);
  std::vector<bool> sorted;
  std::size_t handed_over = 0;
  for (std::size_t i = 0; i < all; ++i) {
    for (handed_over = std::max(handed_over, i); handed_over < all; ++handed_over) {
      if (!sorters.hand_over({buckets.records(handed_over), buckets.count(handed_over)})) break;
    }
    sorted.push_back(handed_over > i);
    EXPECT_EQ(sorters.has_any(), sorted.back());
    RecordCollector out(buckets.order.record_bytes());
    if (sorted.back()) {
      sorters.await();
      sorters.pass_on(out);
    } else {
      // All of the scratch is ours now.
      std::ranges::fill(scratch, std::byte{0xa5});
      buckets.order.sort_bucket(buckets.records(i), buckets.count(i), scratch, out);
    }
    EXPECT_TRUE(
        test::same_bytes(out.list.bytes, stably_sorted(buckets.order, buckets.lists[i]).bytes))
        << "bucket " << i;
    if (sorted.back()) sorters.done_with_it();
  }
  return sorted;
}

TEST(BucketSorters, EveryBucketInItsTurn) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {8u, 16u, 100u}) {
    for (const unsigned threads : {1U, 2U, 7U}) {
      std::vector<std::size_t> counts(20);
      // So that the scratch has as many parts as are named: each for a quarter more than the
      // average.
      for (std::size_t& count : counts) count = 4600 + random() % 1200;
      counts[random() % 20] = 0;
      const Buckets buckets(record_bytes, counts, random);
      for (const std::size_t parts : {2U, 3U, 8U}) {
        SCOPED_TRACE(std::to_string(record_bytes) + " bytes, " + std::to_string(threads) +
                     " threads, scratch for " + std::to_string(parts));
        const std::size_t scratch = parts * *BucketSorters::part_bytes(buckets.order, 7000);
        const std::vector<bool> sorted = expect_sorted(buckets, threads, scratch);
        EXPECT_EQ(std::ranges::count(sorted, true), threads == 1 ? 0 : 20);
      }
    }
  }
}

// Records that are too long to be sorted in place, with keys whose first bytes decide, or not.
TEST(BucketSorters, RecordsInEveryOrder) {
  auto random = test::test_random();
  for (const char* const key : {"0:8:u64", "0:10", "3:17:bytes:desc"}) {
    for (const Shape shape : test::kShapes) {
      SCOPED_TRACE(std::string(key) + ", shape " + std::to_string(static_cast<int>(shape)));
      const Buckets buckets(100, std::vector<std::size_t>(8, 9000), random, shape, key);
      const std::size_t scratch = 3 * *BucketSorters::part_bytes(buckets.order, 9000);
      for (const unsigned threads : {2U, 7U}) {
        EXPECT_EQ(std::ranges::count(expect_sorted(buckets, threads, scratch), true), 8);
      }
    }
  }
}

// The caller sorts it, while nobody else uses the scratch, and the others go on.
TEST(BucketSorters, OneThatIsTooLargeForAPartIsForTheCaller) {
  auto random = test::test_random();
  for (const std::size_t record_bytes : {8u, 16u, 100u}) {
    for (const std::size_t large : {0U, 7U, 15U}) {
      std::vector<std::size_t> counts(16, 5000);
      counts[large] = 40'000;
      const Buckets buckets(record_bytes, counts, random);
      const std::size_t scratch = 4 * *BucketSorters::part_bytes(buckets.order, 10'000);
      for (const unsigned threads : {2U, 7U}) {
        const std::vector<bool> sorted = expect_sorted(buckets, threads, scratch);
        for (std::size_t i = 0; i < sorted.size(); ++i) EXPECT_EQ(sorted[i], i != large) << i;
      }
    }
  }
}

TEST(BucketSorters, LittleScratchOrFewRecordsAreForTheCaller) {
  auto random = test::test_random();
  const Buckets many(8, std::vector<std::size_t>(16, 5000), random);
  EXPECT_EQ(std::ranges::count(expect_sorted(many, 7, 60'000), true), 0);
  const Buckets few(8, std::vector<std::size_t>(16, 100), random);
  EXPECT_EQ(std::ranges::count(expect_sorted(few, 7, 1 << 20), true), 0);
  const Buckets one(8, {100'000}, random);
  EXPECT_EQ(std::ranges::count(expect_sorted(one, 2, 4 << 20), true), 1);
  expect_sorted(Buckets(8, {}, random), 2, 1 << 20);
}

TEST(BucketSorters, MayGoBeforeAllBucketsAreTaken) {
  auto random = test::test_random();
  const Buckets buckets(16, std::vector<std::size_t>(16, 10'000), random);
  std::vector<std::byte> scratch(std::size_t{4} << 20);
  for (unsigned taken = 0; taken < 4; ++taken) {
    BucketSorters sorters(buckets.order, buckets.records_of_all(), 16, 7, scratch);
    for (unsigned i = 0; i < 4; ++i) {
      EXPECT_TRUE(sorters.hand_over({buckets.records(i), buckets.count(i)}));
    }
    for (unsigned i = 0; i < taken; ++i) {
      RecordCollector out(16);
      sorters.await();
      sorters.pass_on(out);
      sorters.done_with_it();
    }
  }
}

// A bucket for each thread: none goes on before all have one, so each sorts as much as the others.
TEST(BucketSorters, EachThreadSortsABucket) {
  auto random = test::test_random();
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    test::TeamCounts sorted(threads);
    const auto less = [&](const test::KeyAndValue& a, const test::KeyAndValue& b) noexcept {
      sorted.add(0);
      return a.key < b.key;
    };
    const detail::ComparatorOrder<test::KeyAndValue, decltype(less)> order(less);
    const std::size_t each = (std::size_t{1} << 16) / threads + 1;
    std::vector<test::KeyAndValue> records(threads * each);
    for (std::size_t i = 0; i < records.size(); ++i) records[i] = {random(), i};
    std::vector<std::byte> scratch((threads + 1) *
                                   *BucketSorters::part_bytes(order, each * 5 / 4 + 1));
    BucketSorters sorters(order, records.size(), threads, threads, scratch);
    auto* const bytes = reinterpret_cast<std::byte*>(records.data());
    for (unsigned i = 0; i < threads; ++i) {
      ASSERT_EQ(sorters.hand_over({bytes + i * each * sizeof(test::KeyAndValue), each}),
                threads > 1);
    }
    for (unsigned i = 0; i < threads; ++i) {
      RecordCollector out(sizeof(test::KeyAndValue));
      if (threads == 1) {
        order.sort_bucket(bytes, each, scratch, out);
      } else {
        sorters.await();
        sorters.pass_on(out);
        sorters.done_with_it();
      }
      ASSERT_EQ(out.list.count(), each);
    }
    ASSERT_EQ(sorted.of_threads().size(), threads);
  }
}

// Rooms of several blocks of a run.
struct LargeRooms final : RecordOutput {
  std::span<std::byte> room(std::size_t most_bytes) override {
    return std::span(bytes).subspan(done, std::min(kRoom, most_bytes));
  }
  void written(std::size_t count) override { done += count; }
  static constexpr std::size_t kRoom = std::size_t{2} << 20;
  std::vector<std::byte> bytes;
  std::size_t done = 0;
};

// Of a bucket that is passed on: pieces in all, those that others than who passes on have copied,
// and who they are; a log is read when its threads have ended.
struct Copied {
  std::size_t pieces = 0, by_others = 0;
  std::set<std::uint32_t> others;
};
Copied copied(const Buckets& buckets, std::size_t i, unsigned threads, std::span<std::byte> scratch,
              const RecordList& expected) {
  ActivityLog log(1000);
  {
    const Working working(&log, "who passes on");
    BucketSorters sorters(buckets.order, buckets.records_of_all(), buckets.lists.size(), threads,
                          scratch);
    const bool is_taken = sorters.hand_over({buckets.records(i), buckets.count(i)});
    EXPECT_EQ(is_taken, threads > 1);
    if (!is_taken) return {};
    LargeRooms out;
    out.bytes.resize(expected.bytes.size());
    sorters.await();
    sorters.pass_on(out);
    sorters.done_with_it();
    EXPECT_TRUE(test::same_bytes(out.bytes, expected.bytes));
  }
  EXPECT_EQ(log.spans_lost(), 0U);
  Copied all;
  for (const Span& span : log.spans()) {
    if (span.kind != SpanKind::kCopy) continue;
    ++all.pieces;
    if (log.tracks()[span.track].name == "who passes on") continue;
    ++all.by_others;
    all.others.insert(span.track);
  }
  return all;
}

// From four threads on they share what is passed on, in pieces of 128 KiB, whatever their number;
// who passes on copies the rest of a room by itself, less than four pieces of a bucket, and not
// most of the others.
TEST(BucketSorters, WhoPassesOnCopiesARestAlone) {
  auto random = test::test_random();
  constexpr std::size_t kBuckets = 3, kPiece = std::size_t{128} << 10;
  std::vector<std::size_t> counts(kBuckets);
  for (std::size_t& count : counts) count = 500'000 + random() % 100'000;
  const Buckets buckets(8, counts, random);
  std::vector<RecordList> expected;
  for (const RecordList& list : buckets.lists) {
    expected.push_back(stably_sorted(buckets.order, list));
  }
  const std::size_t part = *BucketSorters::part_bytes(buckets.order, 800'000);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(129 * part);
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    bool share = false;
    // Whoever passes on may have copied all of it before another thread is there.
    for (int turn = 0; turn < 1000 && !share; ++turn) {
      for (std::size_t i = 0; i < kBuckets; ++i) {
        const Copied all =
            copied(buckets, i, threads, {memory.get(), (threads + 1) * part}, expected[i]);
        if (threads < 4) {
          EXPECT_EQ(all.pieces, threads - 1);  // two hand over, and one copies all
        } else {
          EXPECT_GT((all.pieces + 4) * kPiece, expected[i].bytes.size());
        }
        EXPECT_LE(all.others.size(), threads / 4);
        share |= all.by_others > all.pieces / 4;
      }
      if (threads < 4) break;
    }
    EXPECT_EQ(share, threads >= 4) << threads;
  }
}

// The same to the outputs that sorts have: a file, a sorter's array, and a run that falls. A copy
// of a piece is a span in a log or a trace; where several copy, what nobody shares has none there.
constexpr std::size_t kMiB = std::size_t{1} << 20;
// Who passes on may have copied all of a sort before others are there.
constexpr int kTurns = 100;

// The pieces that each thread has copied.
using Pieces = std::vector<std::size_t>;

Pieces pieces_in_trace(const std::string& path) {
  const std::string text = test::file_text(path);
  const std::regex copy(R"re("name":"copy","pid":\d+,"tid":(\d+))re");
  std::map<std::string, std::size_t> of_threads;
  for (std::sregex_iterator at(text.begin(), text.end(), copy), end; at != end; ++at) {
    ++of_threads[(*at)[1]];
  }
  Pieces pieces;
  for (const auto& [thread, count] : of_threads) pieces.push_back(count);
  return pieces;
}

Pieces pieces_in(const ActivityLog& log) {
  EXPECT_EQ(log.spans_lost(), 0U);
  std::map<std::uint32_t, std::size_t> of_threads;
  for (const Span& span : log.spans()) {
    if (span.kind == SpanKind::kCopy) ++of_threads[span.track];
  }
  Pieces pieces;
  for (const auto& [thread, count] : of_threads) pieces.push_back(count);
  return pieces;
}

// From four threads on, three quarters and more of the bytes are in pieces that any of the copiers
// may take, so that who passes on copies no more than the rest and its share; and several do.
template <typename Sort>
void expect_shared(unsigned threads, std::uint64_t bytes, const Sort& sort) {
  SCOPED_TRACE(threads);
  bool several = false;
  for (int turn = 0; turn < kTurns && !several && !testing::Test::HasFailure(); ++turn) {
    const Pieces pieces = sort();
    several = pieces.size() > 1;
    EXPECT_LE(pieces.size(), threads / 4 + 1);
    if (threads < 4) break;
    std::size_t all = 0;
    for (const std::size_t some : pieces) all += some;
    EXPECT_GE(all * BucketSorters::kPieceBytes, bytes / 4 * 3);
  }
  EXPECT_EQ(several, threads >= 4);
}

std::vector<unsigned> counts_of_threads() {
  if constexpr (test::kShadowMemory) return {7};
  return {2, 7, 16};
}

struct SortedFile {
  SortedFile() : folder(test::fast_folder()) {
    options.inputs = {folder.file("in")};
    options.output = folder.file("out");
    options.trace = folder.file("trace");
    options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
    options.resources.folders = {folder.path().string()};
  }

  void put(const std::vector<std::uint64_t>& numbers) const {
    test::put_file_text(folder.file("in"), {reinterpret_cast<const char*>(numbers.data()),
                                            numbers.size() * sizeof numbers[0]});
  }
  void expect(const std::vector<std::uint64_t>& numbers) const {
    const std::string text = test::file_text(folder.file("out"));
    ASSERT_EQ(text.size(), numbers.size() * sizeof numbers[0]);
    EXPECT_EQ(std::memcmp(text.data(), numbers.data(), text.size()), 0);
  }

  test::TemporaryFolder folder;
  ExternalSortOptions options;
};

TEST(BucketSorters, SeveralCopyToAFile) {
  SortedFile file;
  std::vector<std::uint64_t> numbers = test::random_numbers(6 * kMiB);
  file.put(numbers);
  test::put_in_order(numbers);
  file.options.resources.memory_bytes = 1024 * kMiB;
  for (const unsigned threads : counts_of_threads()) {
    file.options.resources.threads = threads;
    expect_shared(threads, 48 * kMiB, [&] {
      EXPECT_EQ(external_sort(file.options).runs, 0U);
      file.expect(numbers);
      return pieces_in_trace(file.options.trace);
    });
  }
}

// Of equal records the first of a room stay, and the next room begins behind them; records straddle
// blocks.
TEST(BucketSorters, SeveralCopyToRoomsOfWhichAPartIsUsed) {
  auto random = test::test_random();
  SortedFile file;
  file.options.format = RecordFormat(100, {parse_record_key("0:8")});
  file.options.resources.memory_bytes = 512 * kMiB;
  const FormatOrder order(*file.options.format);
  for (const bool unique : {false, true}) {
    SCOPED_TRACE(unique);
    RecordList list = test::make_records(Shape::kRandom, 100, 500'000, random);
    if (unique) {
      for (std::size_t i = 0; i < list.count(); i += 1 + random() % 3) {
        std::memcpy(list.bytes.data() + i * 100, list.at(random() % list.count()), 8);
      }
    }
    test::write_file(file.folder.file("in"), list.bytes);
    RecordList expected = stably_sorted(order, list);
    if (unique) expected = firsts_of_equal(order, expected);
    file.options.unique = unique;
    for (const unsigned threads : counts_of_threads()) {
      SCOPED_TRACE(threads);
      file.options.resources.threads = threads;
      EXPECT_EQ(external_sort(file.options).runs, 0U);
      EXPECT_TRUE(test::same_bytes(test::read_file(file.options.output), expected.bytes));
      EXPECT_TRUE(threads < 4 || !pieces_in_trace(file.options.trace).empty());
      if (unique) continue;
      RecordSorter sorter(file.options.resources, *file.options.format);
      sorter.push(list.bytes);
      sorter.sort();
      EXPECT_EQ(std::memcmp(sorter.data(), expected.bytes.data(), expected.bytes.size()), 0);
    }
  }
}

TEST(BucketSorters, SeveralCopyToARunThatFalls) {
  SortedFile file;
  std::vector<std::uint64_t> numbers(20 * kMiB);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 3 * (numbers.size() - i);
  file.put(numbers);
  std::ranges::reverse(numbers);
  file.options.resources.memory_bytes = 160 * kMiB;
  for (const unsigned threads : counts_of_threads()) {
    file.options.resources.threads = threads;
    expect_shared(threads, 160 * kMiB, [&] {
      EXPECT_EQ(external_sort(file.options).runs, 1U);
      file.expect(numbers);
      return pieces_in_trace(file.options.trace);
    });
  }
}

TEST(BucketSorters, SeveralCopyToTheArrayOfASorter) {
  const test::TemporaryFolder folder(test::fast_folder());
  const std::vector<std::uint64_t> numbers = test::random_numbers(6 * kMiB);
  std::vector<std::uint64_t> expected = numbers;
  test::put_in_order(expected);
  SortResources resources;
  resources.folders = {folder.path().string()};
  resources.memory_bytes = 512 * kMiB;
  for (const unsigned threads : counts_of_threads()) {
    resources.threads = threads;
    expect_shared(threads, 48 * kMiB, [&] {
      ActivityLog log(100'000);
      {
        const Working working(&log, "who pushes");
        Sorter<std::uint64_t> sorter(resources);
        sorter.push(numbers);
        sorter.sort();
        EXPECT_EQ(sorter.counts().runs, 0U);
        EXPECT_TRUE(std::ranges::equal(std::span(sorter.data(), expected.size()), expected));
      }
      return pieces_in(log);
    });
  }
}

}  // namespace

}  // namespace vortex::bucket_sorters_test
