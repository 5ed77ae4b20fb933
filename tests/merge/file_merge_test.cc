// Sorted files merged to a file by threads that read and write a part of it each, against
// std::stable_sort.
#include "sort/merge/file_merge.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "sort/job/sort_files.h"
#include "sort/record/format_order.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_sorts.h"
#include "tests/thread/team_counts.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/external_sort.h"

namespace vortex::test::file_merge_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBlock = kMinBlockBytes;
constexpr unsigned kTeams[] = {1, 2, 7, 16};

// As plans have it.
const FileReaderOptions kReading{
    .comeback_blocks = 1, .read_ahead = 2, .request_bytes = kBlock, .order = ReadOrder::kForward};

// A merge of files in small blocks, with memory for all threads.
struct Merging {
  Merging(const RecordFormat& format, unsigned threads) : order(format) { set(threads); }

  void add(RecordList list) {
    lists.push_back(list);
    all.bytes.insert(all.bytes.end(), list.bytes.begin(), list.bytes.end());
    files.add_input(std::move(list.bytes));
  }
  void add_sorted(Shape shape, std::size_t count, std::mt19937_64& random) {
    add(stably_sorted(order, make_records(shape, all.record_bytes, count, random)));
  }
  void set(unsigned threads) { resources.threads = threads; }
  ExternalSortOptions options() const {
    ExternalSortOptions options = files.options();
    options.format = order.format();
    options.merge_inputs = true;
    const auto folders = options.resources.folders;
    options.resources = resources;
    options.resources.folders = folders;
    return options;
  }
  SortReport expect_right() const {
    const SortReport report = external_sort(options());
    EXPECT_TRUE(same_bytes(read_file(files.output()), stably_sorted(order, all).bytes))
        << report.merge_parts << " parts\n"
        << to_string(report.plan);
    EXPECT_EQ(report.records_in, all.count());
    EXPECT_EQ(report.records_out, all.count());
    EXPECT_EQ(report.runs, 0U);
    files.expect_nothing_left(true);
    return report;
  }

  const FormatOrder order;
  RecordList all{order.record_bytes(), {}};
  std::vector<RecordList> lists;
  Files files;
  SortResources resources{.memory_bytes = 256 * kMiB,
                          .block_bytes = kBlock,
                          .sync = false,
                          .open_disk = sort_disks(Backend::kThreads)};
};

RecordFormat words() { return RecordFormat(8, {{.offset = 0, .length = 8, .type = {}}}); }
RecordFormat hundreds() { return RecordFormat(100, {{.offset = 0, .length = 8, .type = {}}}); }

std::size_t random_inputs(unsigned round, std::mt19937_64& random) {
  return round % 8 == 7 ? 257 + random() % 60 : 1 + random() % 12;
}

TEST(FileMerge, GivesWhatAStableSortGives) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 800 : 16;
  Seen seen({{"several parts", rounds / 4},
             {"as many as threads"},
             {"many inputs"},
             {"straddling"},
             {"first"},
             {"unique"},
             {"faults"}});
  for (unsigned round = 0; seen.another(round, rounds); ++round) {
    const std::size_t record_bytes = random_record_bytes(random);
    Merging merging(random_format(record_bytes, random), kTeams[random() % std::size(kTeams)]);
    SCOPED_TRACE(to_string(merging.order.format()) + ", round " + std::to_string(round));
    const std::size_t inputs = random_inputs(round, random);
    // Many of the equal ones lie on both sides of a border.
    const Shape shape = kShapes[random() % std::size(kShapes)];
    const bool many = inputs > 256;
    for (std::size_t i = 0; i < inputs; ++i) {
      std::size_t count = many ? 12 * kMiB / inputs / record_bytes - random() % 2
                               : random_count(record_bytes, 4 * kMiB / inputs, random);
      if (random() % 8 == 0) count = random() % 2;
      merging.add_sorted(shape, count, random);
    }
    SortResources& resources = merging.resources;
    if (many) resources.memory_bytes = 80 * kMiB;
    if (random() % 4 == 0) resources.first_records = 1 + random() % (merging.all.count() + 1);
    if (random() % 4 == 0) resources.caching = Caching::kBuffered;
    const bool faults = random() % 4 == 0;
    if (faults) resources.open_disk = sort_disks(Backend::kThreads, harmless_faults(random));
    ExternalSortOptions options = merging.options();
    options.unique = random() % 8 == 0;
    RecordList expected = stably_sorted(merging.order, merging.all);
    if (options.unique) expected = firsts_of_equal(merging.order, expected);
    const std::uint64_t first = resources.first_records;
    if (first != 0 && first < expected.count()) expected.bytes.resize(first * record_bytes);
    const SortReport report = external_sort(options);
    ASSERT_TRUE(same_bytes(read_file(merging.files.output()), expected.bytes))
        << report.merge_parts << " parts\n"
        << to_string(report.plan);
    EXPECT_EQ(report.records_out, expected.count());
    EXPECT_GE(report.records_in, expected.count());
    EXPECT_LE(report.records_in, merging.all.count());
    EXPECT_LE(report.merge_parts, options.unique ? 1 : report.plan.merge_parts);
    merging.files.expect_nothing_left(true);
    seen.note("unique", options.unique);
    if (report.merge_parts < 2) continue;
    seen.note("several parts");
    seen.note("as many as threads", report.merge_parts == resources.threads);
    seen.note("many inputs", many);
    seen.note("straddling", kBlock % record_bytes != 0);
    seen.note("first", first != 0);
    seen.note("faults", faults);
  }
  seen.expect_all();
}

// As many as there are threads, and about equal; which the plan says.
TEST(FileMerge, AllThreadsHaveAPart) {
  std::mt19937_64 random;  // always the same: parts are always about equal
  for (const unsigned threads : kTeams) {
    SCOPED_TRACE(threads);
    Merging merging(words(), threads);
    for (const std::size_t count : {300'000U, 100'000U, 1U, 0U, 500'001U}) {
      merging.add_sorted(Shape::kRandom, count, random);
    }
    const SortPlan plan = plan_external_sort(merging.options());
    EXPECT_EQ(plan.merge_parts, threads);
    const bool told =
        to_string(plan).find(", in " + std::to_string(threads) + " parts") != std::string::npos;
    EXPECT_EQ(told, threads > 1);
    EXPECT_EQ(merging.expect_right().merge_parts, threads);
  }
}

// Fewer threads before none, where there is less memory; one in the least.
TEST(FileMerge, PartsAreAsManyAsHaveRoom) {
  auto random = test_random();
  Merging merging(hundreds(), 16);
  for (int i = 0; i < 10; ++i) merging.add_sorted(Shape::kRandom, 10'000, random);
  unsigned last = 16;
  for (std::uint64_t memory = 32 * kMiB; memory >= kMiB; memory /= 2) {
    merging.resources.memory_bytes = memory;
    const SortReport report = merging.expect_right();
    EXPECT_LE(report.merge_parts, last);
    EXPECT_EQ(report.merge_parts, report.plan.merge_parts);
    last = report.merge_parts;
  }
  EXPECT_EQ(last, 1U);
}

// However few records there are for so many threads: a shorter part would end within its head.
TEST(FileMerge, PartsHaveABlockAtLeast) {
  auto random = test_random();
  for (const std::size_t count : {1U, 40U, 100U, 400U, 3000U}) {
    Merging merging(hundreds(), 16);
    merging.add_sorted(Shape::kRandom, count, random);
    merging.add_sorted(Shape::kRandom, count / 2, random);
    const auto options = merging.options();
    SortFiles files(options, 100);
    files.open_output();
    const std::vector<SortedFile> sorted = files.open_sorted(0, 2);
    const std::vector<RecordPart> parts = divide_files(merging.order, sorted, kBlock, 16, 0);
    std::uint64_t records = 0;
    for (const RecordPart& part : parts) {
      records += part.records;
      EXPECT_TRUE(parts.size() == 1 || part.records * 100 >= kBlock) << part.records;
    }
    EXPECT_EQ(records, merging.all.count());
    EXPECT_EQ(parts.size() > 1, count >= 400) << count;
  }
}

// Puts records to their place, and counts them.
struct PlaceOfPart final : RecordOutput {
  PlaceOfPart(std::byte* place, TeamCounts& counts) : to(place), moved(counts) {}
  std::span<std::byte> room(std::size_t most_bytes) override {
    return {to, std::min<std::size_t>(most_bytes, 8000)};
  }
  void written(std::size_t bytes) override {
    to += bytes;
    moved.add(bytes);
  }
  std::byte* to;
  TeamCounts& moved;
};

// Each thread reads the blocks of its part by itself, and moves its records to where they belong.
// None goes on before all have moved some.
TEST(FileMerge, PartsAreReadAndMovedByAThreadEach) {
  std::mt19937_64 random;
  Merging merging(hundreds(), 1);
  for (const std::size_t count : {30'000U, 20'000U, 10'000U}) {
    merging.add_sorted(Shape::kRandom, count, random);
  }
  const auto options = merging.options();
  SortFiles files(options, 100);
  files.open_output();
  const std::vector<SortedFile> sorted = files.open_sorted(0, 3);
  const Bytes expected = stably_sorted(merging.order, merging.all).bytes;
  for (const unsigned threads : kTeams) {
    SCOPED_TRACE(threads);
    const std::vector<RecordPart> parts = divide_files(merging.order, sorted, kBlock, threads, 0);
    ASSERT_EQ(parts.size(), threads);
    BlockPool pool(
        {.pool_bytes = threads * 3 * FileReaderBase::blocks_needed(kReading, kBlock) * kBlock,
         .block_bytes = kBlock});
    std::vector<std::unique_ptr<FileMerge>> merges;
    std::vector<std::size_t> begins = {0};
    for (const RecordPart& part : parts) {
      merges.push_back(std::make_unique<FileMerge>(
          merging.order, sorted, part,
          FileMergeOptions{.reader = files.reader_options(pool, kReading)}));
      begins.push_back(begins.back() + part.records * 100);
    }
    const std::uint64_t read = files.disk_statistics().read_bytes;
    Bytes merged(expected.size());
    TeamCounts moved(threads);
    detail::ThreadTeam team(threads);
    team.run(threads, [&](std::size_t i) {
      PlaceOfPart out(merged.data() + begins[i], moved);
      merges[i]->merge_to(out);
      EXPECT_EQ(merges[i]->taken(), parts[i].records);
    });
    ASSERT_TRUE(same_bytes(merged, expected));
    ASSERT_EQ(moved.of_threads().size(), threads);
    for (const std::uint64_t bytes : moved.of_threads()) {
      EXPECT_LT(bytes, expected.size() / threads * 5 / 4);
      EXPECT_GT(bytes, expected.size() / threads * 3 / 4);
    }
    // The blocks that two parts share are read by both.
    EXPECT_LE(files.disk_statistics().read_bytes - read,
              expected.size() + 3 * threads * 2 * kBlock);
  }
}

// That some record of the file comes before the one in front of it, and which.
void expect_told(const std::string& message, const Merging& merging) {
  std::size_t file = 0, record = 0, offset = 0;
  const std::size_t name = message.find("/input ");
  ASSERT_NE(name, std::string::npos) << message;
  ASSERT_EQ(std::sscanf(message.c_str() + name,
                        "/input %zu' is not sorted: record %zu, at offset %zu, comes before", &file,
                        &record, &offset),
            3)
      << message;
  const RecordList& list = merging.lists.at(file);
  ASSERT_GT(record, 1U);
  ASSERT_LE(record, list.count());
  EXPECT_EQ(offset, (record - 1) * list.record_bytes);
  EXPECT_TRUE(merging.order.less(list.at(record - 1), list.at(record - 2))) << message;
}

void exchange_records(RecordList& list, std::size_t a, std::size_t b) {
  std::byte* const bytes = list.bytes.data();
  const auto size = static_cast<std::ptrdiff_t>(list.record_bytes);
  const auto at = [&](std::size_t i) { return bytes + static_cast<std::ptrdiff_t>(i) * size; };
  std::swap_ranges(at(a), at(a) + size, at(b));
}

// Wherever that is: in a part or at its border; what is in no order at all is cut anywhere.
TEST(FileMerge, WhatIsNotSortedIsRefused) {
  auto random = test_random();
  const unsigned rounds = kShadowMemory ? 12 : 24;
  for (unsigned round = 0; round < rounds; ++round) {
    Merging merging(round % 2 == 0 ? words() : hundreds(), kTeams[round % 4]);
    const std::size_t record_bytes = merging.all.record_bytes;
    const std::size_t inputs = 1 + random() % 6, wrong = random() % inputs;
    for (std::size_t i = 0; i < inputs; ++i) {
      RecordList list =
          make_records(Shape::kRandom, record_bytes, 3 * kMiB / inputs / record_bytes, random);
      if (i != wrong || round % 3 != 0) list = stably_sorted(merging.order, list);
      if (i == wrong && round % 3 == 1) {
        const std::size_t at = 1 + random() % (list.count() - 1);
        exchange_records(list, at, at - 1);
      }
      if (i == wrong && round % 3 == 2) {
        exchange_records(list, random() % (list.count() / 2),
                         list.count() - 1 - random() % (list.count() / 3));
      }
      merging.add(std::move(list));
    }
    SCOPED_TRACE(round);
    std::string message;
    ASSERT_EQ(error_of([&] { external_sort(merging.options()); }, &message), EINVAL) << message;
    expect_told(message, merging);
    merging.files.expect_nothing_left(false);
  }
}

// Where both parts are in order, and only the first record of the second one is not.
TEST(FileMerge, DisorderAtABorderIsRefused) {
  auto random = test_random();
  for (const unsigned threads : {2U, 7U, 16U}) {
    SCOPED_TRACE(threads);
    Merging sorted(hundreds(), threads), merging(hundreds(), threads);
    sorted.add_sorted(Shape::kRandom, 40'000, random);
    const auto options = sorted.options();
    SortFiles files(options, 100);
    files.open_output();
    const std::vector<RecordPart> parts =
        divide_files(sorted.order, files.open_sorted(0, 1), kBlock, threads, 0);
    ASSERT_EQ(parts.size(), threads);
    const std::uint64_t border = parts[random() % (threads - 1)].runs[0].end;
    RecordList list = sorted.lists[0];
    exchange_records(list, border, border - 1);
    merging.add(std::move(list));
    std::string message;
    ASSERT_EQ(error_of([&] { external_sort(merging.options()); }, &message), EINVAL) << message;
    expect_told(message, merging);
    EXPECT_NE(message.find("record " + std::to_string(border + 1) + ","), std::string::npos);
    merging.files.expect_nothing_left(false);
  }
}

// An error of any request ends all parts, and so does a stop.
TEST(FileMerge, PartsEndTogetherWhenOneFails) {
  auto random = test_random();
  for (const unsigned threads : {2U, 7U}) {
    SCOPED_TRACE(threads);
    Merging merging(hundreds(), threads);
    for (int i = 0; i < 3; ++i) merging.add_sorted(Shape::kRandom, 10'000, random);
    const auto all = counted();
    merging.resources.open_disk = sort_disks(Backend::kThreads, all);
    ASSERT_EQ(merging.expect_right().merge_parts, threads);
    std::filesystem::remove(merging.files.output());
    const std::uint64_t step = kShadowMemory ? 41 : 11;
    for (std::uint64_t at = random() % step; at < all->attempts() * 9 / 10; at += step) {
      SCOPED_TRACE(at);
      merging.resources.open_disk = sort_disks(Backend::kThreads, error_at(at, EIO));
      EXPECT_EQ(error_of([&] { external_sort(merging.options()); }), EIO);
      merging.files.expect_nothing_left(false);
      if (::testing::Test::HasFailure()) return;
    }
    merging.resources.open_disk = sort_disks(Backend::kThreads);
    std::stop_source stop;
    merging.resources.stop = stop.get_token();
    merging.resources.progress = [&](const SortProgress& now) {
      EXPECT_EQ(now.phase_bytes, 3 * 1'000'000U);
      if (now.bytes >= kMiB) stop.request_stop();
    };
    EXPECT_EQ(error_of([&] { external_sort(merging.options()); }), ECANCELED);
    merging.files.expect_nothing_left(false);
  }
}

// An input that becomes longer, or another, while it is merged.
TEST(FileMerge, InputsThatChangeAreRefused) {
  auto random = test_random();
  for (const unsigned threads : kTeams) {
    SCOPED_TRACE(threads);
    Merging merging(hundreds(), threads);
    for (int i = 0; i < 4; ++i) merging.add_sorted(Shape::kRandom, 10'000, random);
    bool changed = false;
    merging.resources.progress = [&](const SortProgress&) {
      if (std::exchange(changed, true)) return;
      std::ofstream(merging.files.path(2), std::ios::app) << 'x';
    };
    std::string message;
    EXPECT_EQ(error_of([&] { external_sort(merging.options()); }, &message), EBUSY);
    EXPECT_NE(message.find("input 2"), std::string::npos) << message;
    merging.files.expect_nothing_left(false);
  }
}

// However many parts there are, each input is opened once: as few descriptors do as for one thread.
TEST(FileMerge, PartsShareDescriptors) {
  auto random = test_random();
  std::size_t of_one = 0;
  for (const unsigned threads : {1U, 2U, 16U}) {
    Merging merging(hundreds(), threads);
    for (int i = 0; i < 10; ++i) merging.add_sorted(Shape::kRandom, 5'000, random);
    std::size_t open = 0;
    merging.resources.progress = [&](const SortProgress&) {
      const std::filesystem::directory_iterator descriptors("/proc/self/fd");
      open = std::max(open, static_cast<std::size_t>(std::distance(begin(descriptors), {})));
    };
    EXPECT_EQ(merging.expect_right().merge_parts, threads);
    if (threads == 1) of_one = open;
    EXPECT_EQ(open, of_one) << threads;
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = of_one + 1;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_EQ(error_of([&] { external_sort(merging.options()); }), 0) << threads;
    few.rlim_cur = of_one / 2;
    setrlimit(RLIMIT_NOFILE, &few);
    EXPECT_EQ(error_of([&] { external_sort(merging.options()); }), EMFILE) << threads;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  }
}

}}  // namespace vortex::test::file_merge_test
