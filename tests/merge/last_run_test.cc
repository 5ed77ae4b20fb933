// The last run of records, which stays in memory where there is room, and is merged from there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sort/record/format_order.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_sorts.h"
#include "vortex/block_pool.h"
#include "vortex/external_sort.h"
#include "vortex/memory_budget.h"
#include "vortex/sorter.h"

namespace vortex::test::last_run_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct NumberSort : ListSort {
  NumberSort(std::uint64_t memory_bytes, std::size_t count, unsigned folders = 1)
      : ListSort(random_records(8, count), RecordFormat(8, {parse_record_key("0:8:u64")}),
                 memory_bytes, folders) {
    options.resources.compression = RunCompression::kNever;
    options.resources.open_disk = sort_disks(Backend::kThreads);
  }
};

// What a run that fills the memory holds is neither written nor read, but for a part where merging
// many runs takes the memory.
TEST(LastRun, IsNotWritten) {
  auto random = test_random();
  for (const std::size_t record_bytes : {8U, 16U, 100U}) {
    for (const unsigned threads : thread_counts(random)) {
      SCOPED_TRACE(::testing::Message() << record_bytes << " bytes, threads " << threads);
      ListSort sort(random_records(record_bytes, 7 * kMiB / record_bytes),
                    RecordFormat(record_bytes, {parse_record_key("0:8")}), 2 * kMiB);
      SortResources& resources = sort.options.resources;
      resources.compression = RunCompression::kNever;
      resources.block_bytes = kMinBlockBytes;
      resources.threads = threads;
      resources.open_disk = sort_disks(Backend::kThreads);
      const SortReport report = sort.run(false);
      EXPECT_EQ(report.passes, 1U);
      EXPECT_LT(report.runs, report.plan.runs);
      EXPECT_GE(plan_external_sort(sort.options).kept_bytes, kMiB);
      EXPECT_EQ(report.run_bytes + report.plan.kept_bytes, report.input_bytes);
      EXPECT_GE(report.plan.kept_bytes, report.plan.run_bytes * 3 / 4) << to_string(report.plan);
      // What merging reads, the input beside. Of each run two parts read the block between them.
      const std::uint64_t twice = (report.merge_parts - 1) * report.runs;
      EXPECT_GE(report.read_bytes, report.input_bytes + report.run_bytes);
      EXPECT_LT(report.read_bytes,
                report.input_bytes + report.run_bytes + (2 + twice) * report.plan.block_bytes);
      EXPECT_LT(report.written_bytes, report.output_bytes + report.run_bytes +
                                          (report.runs + 2) * report.plan.block_bytes);
      EXPECT_EQ(report.least_io_bytes,
                report.input_bytes + report.output_bytes + 2 * report.run_bytes);
    }
  }
}

// As much as is left beside the merge, which takes more blocks the more runs there are; and nothing
// where there are several merges.
TEST(LastRun, IsWrittenAsFarAsMergingTakesItsMemory) {
  auto random = test_random();
  bool whole = false, in_part = false, none = false;
  struct Case {
    std::uint64_t memory_kib;
    std::size_t mib;
  };
  for (const auto [memory_kib, mib] : {Case{2048, 5}, {768, 6}, {768, 18}}) {
    SCOPED_TRACE(mib);
    NumberSort sort(memory_kib << 10, mib * kMiB / 8);
    SortResources& resources = sort.options.resources;
    resources.block_bytes = kMinBlockBytes;
    resources.threads = kThreadCounts[random() % 2];
    const SortReport report = sort.run(false);
    const std::uint64_t kept = report.plan.kept_bytes;
    RecordProperty("kept_of_" + std::to_string(mib), std::to_string(kept));
    whole |= kept >= report.plan.run_bytes * 3 / 4;
    in_part |= kept > 0 && kept < report.plan.run_bytes / 2;
    none |= report.run_bytes >= report.input_bytes;
    if (report.passes > 1) {
      EXPECT_GE(report.run_bytes, report.input_bytes);
    }
  }
  EXPECT_TRUE(whole);
  EXPECT_TRUE(in_part);
  EXPECT_TRUE(none);
}

// Some that come in no order, some in runs that go on or fall.
template <typename Random>
RecordList random_list(const FormatOrder& order, Random& random) {
  const std::size_t record_bytes = order.record_bytes();
  const std::size_t bytes = kMiB / 2 + random() % (2 * kMiB);
  RecordList list = make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                                 bytes / record_bytes, random);
  if (random() % 4 == 0) list = stably_sorted(order, list);
  if (random() % 4 != 0) return list;
  for (std::size_t i = 0, end = list.count(); i + 1 < end; ++i) {
    --end;
    std::byte* const low = list.bytes.data() + i * record_bytes;
    std::swap_ranges(low, low + record_bytes, list.bytes.data() + end * record_bytes);
  }
  return list;
}

template <typename Random>
void choose_options(ListSort& sort, Random& random) {
  ExternalSortOptions& options = sort.options;
  SortResources& resources = options.resources;
  if (random() % 3 == 0) resources.folders.clear();
  options.unique = random() % 4 == 0;
  if (random() % 4 == 0) resources.first_records = 1 + random() % sort.list.count();
  resources.memory_bytes = 3 * kMiB / 4 + random() % (3 * kMiB / 4);
  resources.block_bytes = std::size_t{16} << (10 + random() % 3);
  resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
  resources.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
  resources.seed = random();
  resources.compression = random() % 4 == 0 ? RunCompression::kAlways : RunCompression::kNever;
  resources.open_disk =
      sort_disks(Backend::kThreads, random() % 3 == 0 ? harmless_faults(random) : nullptr);
}

RecordList expected_of(const ListSort& sort) {
  RecordList expected = stably_sorted(sort.order, sort.list);
  if (sort.options.unique) expected = firsts_of_equal(sort.order, expected);
  const std::uint64_t first = sort.options.resources.first_records;
  if (first != 0 && first < expected.count()) {
    expected.bytes.resize(first * expected.record_bytes);
  }
  return expected;
}

// Records of all kinds, in few blocks and in many.
TEST(LastRun, GivesWhatAStableSortGives) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 2000 : 30;
  Seen seen({{"kept", rounds / 10 + 1}, {"unique"}, {"first"}, {"long"}, {"straddling"}});
  for (unsigned round = 0; seen.another(round, rounds); ++round) {
    const std::size_t record_bytes = round % 3 == 0   ? 8
                                     : round % 3 == 1 ? 16
                                                      : random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()) + ", round " + std::to_string(round));
    ListSort sort(random_list(order, random), order.format(), kMiB, 1 + random() % 3,
                  random() % 4 == 0);
    const SortResources& resources = sort.options.resources;
    choose_options(sort, random);
    SortReport report;
    const int error = error_of([&] { report = external_sort(sort.options); });
    if (error == ENOMEM) continue;  // records that are long for the memory
    ASSERT_EQ(error, 0);
    ASSERT_TRUE(same_bytes(read_file(sort.options.output), expected_of(sort).bytes))
        << to_string(report.plan);
    sort.files.expect_nothing_left(true);
    if (report.plan.kept_bytes == 0) continue;
    seen.note("kept");
    seen.note("unique", sort.options.unique);
    seen.note("first", resources.first_records != 0);
    seen.note("long", record_bytes > 16);
    seen.note("straddling", report.plan.block_bytes % record_bytes != 0);
  }
  seen.expect_all();
}

// While runs are read beside it; while the output is written; and when the sort is to end while it
// is sorted, or merged.
TEST(LastRun, EndsWithTheSort) {
  auto random = test_random();
  for (const unsigned threads : thread_counts(random)) {
    SCOPED_TRACE(threads);
    NumberSort sort(8 * kMiB, 1'300'000, 2);
    SortResources& resources = sort.options.resources;
    resources.threads = threads;
    const auto reads = counted(Operation::kRead);
    const auto writes = counted(Operation::kWrite);
    resources.open_disk = sort_disks(Backend::kThreads, reads);
    const SortReport report = sort.run(false);
    ASSERT_GT(report.plan.kept_bytes, 7 * kMiB / 2);
    resources.open_disk = sort_disks(Backend::kThreads, writes);
    sort.run(false);
    for (const unsigned i : {1U, 3U}) {
      SCOPED_TRACE(i);
      resources.open_disk =
          sort_disks(Backend::kThreads, error_at(reads->attempts() - i * i, EIO, Operation::kRead));
      sort.expect_end(EIO);
      resources.open_disk = sort_disks(
          Backend::kThreads, error_at(writes->attempts() - i * i, EIO, Operation::kWrite));
      sort.expect_end(EIO);
    }
    resources.open_disk = sort_disks(Backend::kThreads);
    // All has been read: what is reported then, each MiB, is that it is sorted.
    unsigned reports = 0;
    sort.expect_stop([&](const SortProgress& now) {
      return now.phase == SortPhase::kReading && now.bytes == report.input_bytes && ++reports == 3;
    });
    for (const unsigned part : {0U, 1U, 3U}) {
      sort.expect_stop([&](const SortProgress& now) {
        return now.phase == SortPhase::kWriting && now.bytes >= report.output_bytes * part / 4;
      });
    }
    EXPECT_EQ(sort.run().run_bytes, report.run_bytes);
  }
}

// Others may want the memory.
TEST(LastRun, IsWrittenWhereMemoryIsShared) {
  NumberSort sort(4 * kMiB, 1'000'000);
  EXPECT_GT(sort.run(false).plan.kept_bytes, kMiB);
  sort.options.resources.budget = MemoryBudget::make(4 * kMiB);
  EXPECT_EQ(sort.run().run_bytes, sort.list.bytes.size());
}

// What is pushed, and read from an array, also where only its beginning is.
TEST(LastRun, IsInTheArrayOfASorter) {
  auto random = test_random();
  const TemporaryFolder folder(fast_folder());
  for (const unsigned threads : thread_counts(random)) {
    SCOPED_TRACE(threads);
    for (const bool to_the_end : {true, false}) {
      SortResources resources;
      resources.memory_bytes = 4 * kMiB;
      resources.folders = {folder.path().string()};
      resources.threads = threads;
      resources.compression = RunCompression::kNever;
      std::vector<std::uint64_t> numbers(1'000'000);
      for (std::uint64_t& number : numbers) number = random();
      Sorter<std::uint64_t> sorter(resources);
      sorter.push(numbers);
      sorter.sort();
      EXPECT_GE(sorter.counts().runs, 1U);
      EXPECT_LT(sorter.counts().bytes, numbers.size() * 8 - kMiB);
      std::ranges::sort(numbers);
      const auto some = static_cast<std::ptrdiff_t>(to_the_end ? numbers.size() : 1000);
      EXPECT_TRUE(std::equal(numbers.begin(), numbers.begin() + some, sorter.begin()));
    }
    EXPECT_EQ(folder.entries(), 0U);
  }
}

}}  // namespace vortex::test::last_run_test
