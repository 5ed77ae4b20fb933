// The first records of a sort, of files and of a sorter: the beginning of what a stable sort gives.
#include "sort/record/first_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/sort/pushed_sorts.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_sorts.h"
#include "vortex/external_sort.h"
#include "vortex/memory_budget.h"
#include "vortex/sorter.h"

namespace vortex::test::first_records_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

RecordList first_of(RecordList list, std::uint64_t most) {
  list.bytes.resize(std::min<std::uint64_t>(list.count(), most) * list.record_bytes);
  return list;
}

// One, a few, about half, all but one, all, more than all.
template <typename Random>
std::uint64_t random_first(std::size_t count, Random& random) {
  const std::uint64_t all = std::max<std::uint64_t>(count, 1);
  const std::uint64_t some[] = {1,   1 + random() % 50, 1 + random() % all, all / 2 + 1, all - 1,
                                all, all + 7,           ~std::uint64_t{0}};
  return std::max<std::uint64_t>(some[random() % std::size(some)], 1);
}

TEST(FirstRecords, AreThoseOfAStableSort) {
  auto random = test_random();
  for (int round = 0; round < 200 && !HasFailure(); ++round) {
    const std::size_t record_bytes = random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    const RecordList list = make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                                         random_count(record_bytes, 400'000, random), random);
    const std::uint64_t most = std::min<std::uint64_t>(random_first(list.count(), random), 100'000);
    const bool unique = random() % 2 == 0;
    SCOPED_TRACE(to_string(order.format()) + ", the first " + std::to_string(most));
    FirstRecords first(order, most, unique);
    for (std::size_t at = 0; at < list.count();) {
      const std::size_t some = std::min<std::size_t>(1 + random() % 5000, list.count() - at);
      first.take(list.at(at), some);
      at += some;
    }
    RecordCollector found(record_bytes);
    SortedOutput sorted(order, unique, most, found);
    first.emit(sorted.to());
    RecordList expected = stably_sorted(order, list);
    if (unique) expected = firsts_of_equal(order, expected);
    EXPECT_TRUE(same_bytes(found.list.bytes, first_of(expected, most).bytes));
  }
}

// As long as nothing was told, all are wanted where they lie; then those before the least of what
// was told, whoever tells it, and in whichever order.
TEST(FirstBound, LetsPassWhatComesBeforeWhatWasTold) {
  auto random = test_random();
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    const std::size_t record_bytes = random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    const RecordList list = make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                                         1 + random_count(record_bytes, 400'000, random), random);
    SCOPED_TRACE(to_string(order.format()));
    FirstBound bound(order);
    const std::byte* least = nullptr;
    for (std::size_t at = 0; at < list.count();) {
      const std::size_t most = std::min<std::size_t>(1'000, list.count() - at);
      const std::size_t some = 1 + random() % most;
      RecordCollector expected(record_bytes);
      for (std::size_t i = at; i < at + some; ++i) {
        if (least == nullptr || order.less(list.at(i), least)) expected.append(list.at(i));
      }
      const std::span<const std::byte> wanted = bound.wanted(list.at(at), some);
      EXPECT_EQ(wanted.data() == list.at(at), least == nullptr);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), expected.list.bytes.begin(),
                             expected.list.bytes.end()));
      for (unsigned times = random() % 3; times > 0; --times) {
        const std::byte* const told = list.at(random() % list.count());
        if (least == nullptr || order.less(told, least)) least = told;
        std::thread([&] { bound.tell(told); }).join();
      }
      at += some;
    }
  }
}

TEST(FirstRecordsOfFiles, AreThoseOfAStableSort) {
  auto random = test_random();
  // In memory are those of more than it holds.
  Seen ways({{"in memory"}, {"in runs"}, {"merged"}, {"merged to runs"}, {"of pipes"}});
  const unsigned rounds = kShadowMemory ? 24 : 48;
  for (unsigned round = 0; ways.another(round, rounds); ++round) {
    const bool merge_inputs = round % 4 == 3;
    const bool pipe = round % 4 == 1;
    const std::size_t record_bytes = random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    Files files(1 + random() % 2);
    const std::size_t inputs = merge_inputs ? (round % 8 == 3 ? 30 : 3) : 1 + random() % 2;
    const RecordList all = add_inputs(files, record_bytes, inputs, pipe, [&] {
      RecordList list =
          make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                       std::min<std::size_t>(2 * kMiB / record_bytes, 60'000) / inputs, random);
      return merge_inputs ? stably_sorted(order, list) : list;
    });
    ExternalSortOptions options = files.options();
    options.format = order.format();
    options.unique = random() % 3 == 0;
    options.merge_inputs = merge_inputs;
    options.resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    options.resources.open_disk = sort_disks(Backend::kThreads);
    const std::uint64_t most =
        round % 3 == 0 ? 1 + random() % 20 : random_first(all.count(), random);
    options.resources.first_records = most;
    options.resources.memory_bytes = least_memory(options, pipe);
    // Enough to merge the inputs at once, now and then.
    if (random() % 3 == 0) options.resources.memory_bytes *= 2;
    if (round % 8 == 7) options.resources.memory_bytes *= 8;
    SCOPED_TRACE("round " + std::to_string(round) + ", " + to_string(order.format()) +
                 ", the first " + std::to_string(most));
    RecordList expected = stably_sorted(order, all);
    if (options.unique) expected = firsts_of_equal(order, expected);
    expected = first_of(std::move(expected), most);
    const SortReport report = external_sort(options);
    EXPECT_TRUE(same_bytes(read_file(files.output()), expected.bytes)) << to_string(report.plan);
    files.expect_inputs_untouched();
    files.expect_nothing_left(true);
    EXPECT_LE(report.records_in, all.count());
    EXPECT_GE(report.records_in, merge_inputs ? expected.count() : all.count());
    EXPECT_EQ(report.records_out, expected.count());
    EXPECT_EQ(report.output_bytes, expected.bytes.size());
    EXPECT_TRUE(!report.plan.first_in_memory || report.run_bytes == 0);
    const bool more_than_memory = all.bytes.size() > options.resources.memory_bytes;
    ways.note("in memory", report.plan.first_in_memory && more_than_memory);
    ways.note("in runs", !merge_inputs && report.runs > 1);
    ways.note("merged", merge_inputs && report.runs == 0);
    ways.note("merged to runs", merge_inputs && report.runs > 0);
    ways.note("of pipes", pipe);
  }
  ways.expect_all();
}

// What a run has told lets few of the next records pass: the folders get less than the input.
TEST(FirstRecordsOfFiles, ManyMakeFewRuns) {
  ListSort sort(random_records(8, 2'000'000), RecordFormat(8, {parse_record_key("0:8:u64")}),
                3 * kMiB);
  SortResources& resources = sort.options.resources;
  resources.first_records = 60'000;
  resources.progress = [&resources](const SortProgress& now) {
    if (now.phase != SortPhase::kWriting) return;
    EXPECT_EQ(now.phase_bytes, resources.first_records * 8);
  };
  sort.sorted = first_of(stably_sorted(sort.order, sort.list), resources.first_records).bytes;
  for (const unsigned threads : {1, 2}) {
    resources.threads = threads;
    const SortReport report = sort.run(false);
    EXPECT_FALSE(report.plan.first_in_memory);
    EXPECT_GT(report.runs, 1U);
    EXPECT_LT(report.run_bytes, sort.list.bytes.size() / 4) << report.runs << " runs";
  }
}

// A merge of sorted inputs reads little more than it needs.
TEST(FirstRecordsOfFiles, AMergeStopsReading) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(8, {parse_record_key("0:8:u64")}));
  Files files;
  for (int i = 0; i < 3; ++i) {
    files.add_input(stably_sorted(order, make_records(Shape::kRandom, 8, 1'000'000, random)).bytes);
  }
  ExternalSortOptions options = files.options();
  options.format = order.format();
  options.merge_inputs = true;
  options.resources.memory_bytes = 2 * kMiB;
  options.resources.first_records = 100;
  options.resources.open_disk = sort_disks(Backend::kThreads);
  const SortReport report = external_sort(options);
  EXPECT_EQ(report.records_out, 100U);
  EXPECT_LT(report.records_in, 3'000U);
  EXPECT_EQ(report.input_bytes, 8 * report.records_in);
  EXPECT_LT(report.read_bytes, 3'000'000U * 8 / 4);
}

TEST(FirstRecordsOfFiles, AMergeFindsNoDisorderBehindThem) {
  for (const std::size_t at : {50, 150}) {
    std::vector<std::uint64_t> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 1);
    numbers[at] = 0;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(numbers));
    Files files;
    files.add_input({bytes.begin(), bytes.end()});
    ExternalSortOptions options = files.options();
    options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
    options.merge_inputs = true;
    options.resources.first_records = 100;
    EXPECT_EQ(error_of([&] { external_sort(options); }), at < 100 ? EINVAL : 0);
    if (at < 100) continue;
    EXPECT_TRUE(std::ranges::equal(read_file(files.output()), bytes.first(800)));
  }
}

TEST(FirstRecordsOfASorter, AreThoseOfAStableSort) {
  auto random = test_random();
  Seen seen({{"in memory"}, {"in runs"}});
  for (unsigned round = 0; seen.another(round, 24); ++round) {
    std::vector<std::uint64_t> numbers(random_count(8, kMiB + kMiB / 2, random));
    for (std::uint64_t& number : numbers) number = random() % 100'000;
    const TemporaryFolder folder(fast_folder());
    SortResources resources;
    resources.folders = {folder.path().string()};
    resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    resources.memory_bytes = 512 << 10;
    if (round % 2 == 0) resources.budget = MemoryBudget::make(kMiB);
    resources.first_records =
        round % 3 == 0 ? 1 + random() % 100 : random_first(numbers.size(), random);
    Sorter<std::uint64_t> sorter(resources);
    sorter.push(std::span<const std::uint64_t>(numbers));
    sorter.sort();
    seen.note("in memory", sorter.counts().runs == 0);
    seen.note("in runs", sorter.counts().runs > 1);
    std::sort(numbers.begin(), numbers.end());
    numbers.resize(std::min<std::uint64_t>(numbers.size(), resources.first_records));
    EXPECT_EQ(sorter.size(), numbers.size());
    EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), sorter.begin(), sorter.end()));
  }
  seen.expect_all();
}

// The memory that few records take is not lent before they have left.
TEST(FirstRecordsOfASorter, KeepTheirMemory) {
  constexpr std::uint64_t kFirst = 60'000;
  const TemporaryFolder folder(fast_folder());
  const auto budget = MemoryBudget::make(16 * kMiB);
  SortResources resources = resources_in(folder, budget, 1);
  resources.first_records = kFirst;
  resources.block_bytes = 16 << 10;
  std::vector<std::uint64_t> numbers = random_numbers(200'000);
  Sorter<std::uint64_t> sorter(resources);
  sorter.push(std::span<const std::uint64_t>(numbers));
  sorter.sort();  // The array takes a few blocks, and waits until it is read.
  ASSERT_TRUE(sorter.plan().first_in_memory);
  const std::uint64_t pool = sorter.plan().pool_blocks * resources.block_bytes;
  const std::uint64_t few = FirstRecords::memory_bytes(8, kFirst);
  EXPECT_EQ(error_of([&] { budget->take(pool - few / 2, pool); }), EDEADLK);
  EXPECT_EQ(error_of([&] { budget->take(pool - few - kMiB, pool); }), 0);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_TRUE(std::equal(numbers.begin(), numbers.begin() + kFirst, sorter.begin(), sorter.end()));
  EXPECT_EQ(error_of([&] { budget->take(pool - few / 2, pool); }), 0);
}

}}  // namespace vortex::test::first_records_test
