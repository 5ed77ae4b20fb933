// Files sorted through every path of the external sort, against std::stable_sort.
#include "vortex/external_sort.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/name/path_names.h"
#include "sort/record/format_order.h"
#include "sort/runs/block_packer.h"
#include "sort/runs/sort_watch.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/environment.h"
#include "tests/support/error_of.h"
#include "tests/support/loop_device.h"
#include "tests/support/policy_name.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_file_system.h"
#include "tests/support/small_sorts.h"
#include "tests/support/temporary_folder.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/sorter.h"

namespace vortex::test::external_sort_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The way a sort has gone.
void note_path(Seen& paths, const ExternalSortOptions& options, const SortReport& report) {
  if (options.merge_inputs) {
    paths.note(report.runs == 0 ? "inputs merged at once" : "inputs merged to runs");
  } else {
    paths.note(report.runs == 0     ? "in memory"
               : report.passes == 1 ? "one merge"
                                    : "several passes");
  }
  paths.note("of unknown length", !report.plan.input_bytes);
  paths.note("unique", options.unique);
}

// How much memory a sort gets, in tenths of the least.
template <typename Random>
unsigned tenths(unsigned way, Random& random) {
  constexpr unsigned kShares[] = {10, 10, 11, 14, 20, 40, 160};
  if (way == 0 || way == 2) return 10;
  if (way == 1) return 70;
  return way == 6 ? 160 : kShares[random() % std::size(kShares)];
}

// Of files in memory, which several copy, with partitioners, sorters of parts, and who copies
// sorted buckets; by themselves and as a sorter.
TEST(ExternalSorts, AnyNumberOfThreadsGivesWhatAStableSortGives) {
  auto random = test_random();
  constexpr std::size_t bytes = 48 * kMiB;
  for (const std::size_t record_bytes : some_of({8U, 16U, 100U}, 1, random)) {
    const FormatOrder order(RecordFormat(record_bytes, {{0, 8, parse_key_type("u64", "")}}));
    const RecordList list =
        make_records(Shape::kRandom, record_bytes, bytes / record_bytes - random() % 100, random);
    const RecordList expected = stably_sorted(order, list);
    for (const unsigned threads : some_of({1U, 2U, 7U, 16U, 128U}, 2, random)) {
      SCOPED_TRACE(std::to_string(record_bytes) + " bytes, threads " + std::to_string(threads));
      Files files(1, fast_folder());
      files.add_input(list.bytes);
      ExternalSortOptions options = files.options();
      options.format = order.format();
      options.resources.threads = threads;
      options.resources.memory_bytes = 40 * kMiB;
      const SortReport report = external_sort(options);
      EXPECT_GE(report.runs, 1U);
      EXPECT_EQ(report.plan.partition_threads, threads < 4 ? 1U : 2U);
      ASSERT_TRUE(same_bytes(read_file(files.output()), expected.bytes)) << to_string(report.plan);
      files.expect_nothing_left(true);
      RecordSorter sorter(options.resources, order.format());
      sorter.push(list.bytes);
      sorter.sort();
      ASSERT_EQ(sorter.size(), list.count());
      const Failure failure = guarded([&] {
        ASSERT_EQ(std::memcmp(sorter.data(), expected.bytes.data(), expected.bytes.size()), 0);
      });
      failure.throw_if_failed();
    }
  }
}

class ExternalSort : public ::testing::TestWithParam<PrefetchKind> {
 protected:
  Seen paths_{{{"in memory"},
               {"one merge"},
               {"several passes"},
               {"inputs merged at once"},
               {"inputs merged to runs"},
               {"of unknown length"},
               {"unique"}}};
};

INSTANTIATE_TEST_SUITE_P(, ExternalSort, ::testing::ValuesIn(kAllPrefetchKinds), policy_name);

TEST_P(ExternalSort, GivesWhatAStableSortGives) {
  auto random = test_random();
  const unsigned rounds = long_tests() ? 1500 : kShadowMemory ? 24 : 45;
  for (unsigned round = 0; paths_.another(round, rounds); ++round) {
    SCOPED_TRACE(round);
    // Every way is gone now and then, whatever chance says.
    const unsigned way = round % 8;
    const bool large = way <= 1;  // more than fits in memory: several passes, or one
    const bool merge_inputs = way == 2 || way == 3;
    const bool pipe = way == 4 || (!merge_inputs && random() % 8 == 0);
    const std::size_t record_bytes = large ? 60 + random() % 900 : random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()));
    const Shape shape = kShapes[random() % std::size(kShapes)];
    // Now and then where files are in earnest.
    Files files(1 + random() % 3,
                round % 16 == 0 ? std::filesystem::temp_directory_path() : fast_folder());
    const std::size_t most = std::min<std::size_t>(record_bytes * 50000, std::size_t{3} << 20);
    const auto inputs = static_cast<unsigned>(way == 2 ? 20 + random() % 20 : 1 + random() % 2);
    const RecordList all = add_inputs(files, record_bytes, inputs, pipe, [&] {
      const std::size_t count =
          large ? most / inputs / record_bytes : random_count(record_bytes, most / inputs, random);
      RecordList list = make_records(shape, record_bytes, count, random);
      return merge_inputs ? stably_sorted(order, list) : list;
    });
    if (!pipe && random() % 8 == 0) files.output_is_an_input();

    ExternalSortOptions options = files.options();
    options.format = order.format();
    options.unique = way == 5 || random() % 6 == 0;
    options.merge_inputs = merge_inputs;
    options.resources.prefetch = GetParam();
    options.resources.caching = random() % 4 == 0 ? Caching::kBuffered : Caching::kAuto;
    options.resources.seed = random();
    const Backend backend = kAllBackends[random() % kAllBackends.size()];
    SCOPED_TRACE(name_of(backend));
    options.resources.open_disk =
        sort_disks(backend, random() % 3 == 0 ? harmless_faults(random) : nullptr);
    // Virtual time is for one.
    options.resources.threads =
        backend == Backend::kVirtual ? 1 : kThreadCounts[random() % std::size(kThreadCounts)];
    options.resources.memory_bytes = least_memory(options, pipe) * tenths(way, random) / 10;

    RecordList expected = stably_sorted(order, all);
    if (options.unique) expected = firsts_of_equal(order, expected);
    const SortReport report = external_sort(options);
    ASSERT_TRUE(same_bytes(read_file(files.output()), expected.bytes)) << to_string(report.plan);
    files.expect_inputs_untouched();
    files.expect_nothing_left(true);
    EXPECT_EQ(report.records_in, all.count());
    EXPECT_EQ(report.records_out, expected.count());
    EXPECT_EQ(report.plan.record_bytes, record_bytes);
    EXPECT_GE(report.run_bytes, report.runs > 0 ? record_bytes : 0);
    note_path(paths_, options, report);
  }
  paths_.expect_all();
}

// Through several merges, whatever the records are: what is packed comes back, and takes no more
// bytes than it would as it is.
TEST(ExternalSortPacked, OfRecordsOfAnySize) {
  auto random = test_random();
  const bool can_pack = BlockPacker::available();
  std::uint64_t moved = 0;
  std::uint64_t stored = 0;
  Turns turns(random, 4);
  for (const std::size_t record_bytes : {1, 4, 8, 12, 16, 100, 256, 1000}) {
    for (const Shape shape : kShapes) {
      if (record_bytes == 1 && shape > Shape::kFewValues)
        break;  // many records, few of them differ
      if (turns.leave_out()) continue;
      SCOPED_TRACE(::testing::Message()
                   << "records of " << record_bytes << ", shape " << static_cast<int>(shape));
      const FormatOrder order(random_format(record_bytes, random));
      const std::size_t bytes = kMiB + kMiB / 2 + random() % (kMiB / 2);
      const RecordList list = make_records(shape, record_bytes, bytes / record_bytes, random);
      Files files(1 + random() % 3);
      files.add_input(list.bytes);
      ExternalSortOptions options = files.options();
      options.format = order.format();
      options.unique = random() % 4 == 0;
      options.resources.memory_bytes = kMiB + kMiB / 16;
      options.resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
      options.resources.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
      options.resources.seed = random();
      options.resources.compression = RunCompression::kAlways;
      const SortReport report = external_sort(options);
      RecordList expected = stably_sorted(order, list);
      if (options.unique) expected = firsts_of_equal(order, expected);
      ASSERT_TRUE(same_bytes(read_file(files.output()), expected.bytes)) << to_string(report.plan);
      EXPECT_EQ(report.plan.compression == RunCompression::kAlways, can_pack);
      // What comes far behind its place, here more than the memory holds, is not in the first run;
      // nor is what does so counted from above, where that falls.
      constexpr std::size_t kStep = 16;
      std::vector<std::size_t> some;
      for (std::size_t i = 0; i < list.count(); i += kStep) some.push_back(i);
      std::ranges::stable_sort(some,
                               [&](auto a, auto b) { return order.less(list.at(a), list.at(b)); });
      std::size_t late = 0, late_from_above = 0;
      for (std::size_t i = 0; i < some.size(); ++i) {
        late += some[i] > i * kStep + list.count() / 2;
        late_from_above += some[i] > (some.size() - 1 - i) * kStep + list.count() / 2;
      }
      EXPECT_GT(report.runs, std::min(late, late_from_above) > some.size() / 10 ? 1U : 0U);
      EXPECT_LE(report.run_bytes, report.passes * list.bytes.size());
      if (options.unique) continue;
      moved += report.passes * list.bytes.size();
      stored += report.run_bytes;
    }
  }
  EXPECT_EQ(stored < moved / 10 * 9, can_pack) << stored << " of " << moved;
}

struct Pair {
  std::uint32_t key;
  std::uint32_t value;
};

TEST(ExternalSortOfAType, ByItsComparator) {
  auto random = test_random();
  for (unsigned round = 0; round < 10; ++round) {
    std::vector<Pair> pairs(random_count(sizeof(Pair), 2 << 20, random));
    const std::uint32_t keys = 1 + static_cast<std::uint32_t>(random() % (1U << random() % 32));
    for (std::uint32_t i = 0; i < pairs.size(); ++i) {
      pairs[i] = {static_cast<std::uint32_t>(random()) % keys, i};
    }
    Files files(2);
    files.add_input(bytes_of(pairs));
    ExternalSortOptions options = files.options();
    options.resources.memory_bytes = (512 + random() % 1024) << 10;
    // A comparator with state.
    const bool descending = random() % 2 == 0;
    const auto less = [descending](const Pair& a, const Pair& b) noexcept {
      return descending ? b.key < a.key : a.key < b.key;
    };
    const SortPlan plan = plan_external_sort<Pair>(options, less);
    const SortReport report = external_sort<Pair>(options, less);
    EXPECT_EQ(report.plan.pool_blocks, plan.pool_blocks);
    std::stable_sort(pairs.begin(), pairs.end(), less);
    EXPECT_TRUE(same_bytes(read_file(files.output()), bytes_of(pairs)));
  }
}

TEST(ExternalSortOfAType, UsesOperatorLess) {
  using Numbers = std::vector<std::uint64_t>;
  Files files;
  files.add_input(bytes_of(Numbers{3, ~std::uint64_t{0}, 0, 1, 2}));
  ExternalSortOptions options = files.options();
  options.resources.memory_bytes = 1 << 20;
  external_sort<std::uint64_t>(options);
  EXPECT_TRUE(read_file(files.output()) == bytes_of(Numbers{0, 1, 2, 3, ~std::uint64_t{0}}));
}

// The runs that one merge cannot take are a few neighbours, and only they are merged before it.
TEST(ExternalSortMerging, OneRunTooManyMovesLittleMore) {
  ListSort sort(random_records(64, 60000), RecordFormat(64, {parse_record_key("0:2")}), kMiB);
  std::uint64_t& memory_bytes = sort.options.resources.memory_bytes;
  sort.options.resources.block_bytes = 16 << 10;
  bool one_merge = false;
  bool one_too_many = false;
  // A plan counts on shorter runs than there will be.
  while (plan_external_sort(sort.options).passes == 1) memory_bytes -= 8 << 10;
  for (; !one_too_many; memory_bytes -= 8 << 10) {
    const SortReport report = sort.run();
    const std::uint64_t bytes = sort.list.bytes.size();
    one_merge |= report.passes == 1;
    one_too_many = report.passes == 2;
    EXPECT_LT(report.run_bytes, one_too_many ? bytes + bytes / 2 : bytes + 1)
        << report.runs << " runs\n"
        << to_string(report.plan);
  }
  EXPECT_TRUE(one_merge);
}

// Neighbours change their places.
RecordList nearly_sorted(RecordList list) {
  constexpr std::size_t kGroup = 20;
  for (std::size_t begin = 0; begin + kGroup <= list.count(); begin += kGroup) {
    for (std::size_t i = 0; i < kGroup / 2; ++i) {
      std::byte* const low = list.bytes.data() + (begin + i) * list.record_bytes;
      std::byte* const high = list.bytes.data() + (begin + kGroup - 1 - i) * list.record_bytes;
      std::swap_ranges(low, low + list.record_bytes, high);
    }
  }
  return list;
}

// The last ones come first.
RecordList backward(const RecordList& list) {
  RecordList reversed{list.record_bytes, {}};
  for (std::size_t i = list.count(); i-- > 0;) {
    reversed.bytes.insert(reversed.bytes.end(), list.at(i), list.at(i) + list.record_bytes);
  }
  return reversed;
}

// What comes in order, from either side, nearly so, or is all equal, is one run. In the folder of
// the output it is the output, with what that has from the file that it replaces: no byte is
// written twice.
TEST(ExternalSortOneRun, IsTheOutput) {
  auto random = test_random();
  // Sanitizers see half of the memory and of the records.
  const std::uint64_t memory_bytes = kShadowMemory ? 2 * kMiB : 4 * kMiB;
  Turns turns(random, 2);
  for (const std::size_t record_bytes : {8U, 16U, 100U}) {
    for (const std::string order :
         {"sorted", "nearly sorted", "equal", "descending", "nearly descending"}) {
      if (turns.leave_out()) continue;
      const unsigned threads = kThreadCounts[random() % std::size(kThreadCounts)];
      SCOPED_TRACE(::testing::Message()
                   << order << ", " << record_bytes << " bytes, threads " << threads);
      RecordList list = make_records(order == "equal" ? Shape::kEqual : Shape::kSorted,
                                     record_bytes, 3 * memory_bytes / record_bytes + 7, random);
      if (order.starts_with("nearly")) list = nearly_sorted(std::move(list));
      if (order.ends_with("descending")) list = backward(list);
      // Where the end of the output is, has to be known.
      const bool pipe = random() % 4 == 0 && !order.ends_with("descending");
      ListSort sort(std::move(list), RecordFormat(record_bytes, {parse_record_key("0:8")}),
                    memory_bytes, 1, pipe);
      SortResources& resources = sort.options.resources;
      resources.folders.clear();
      resources.threads = threads;
      resources.caching = random() % 2 == 0 ? Caching::kBuffered : Caching::kAuto;
      resources.open_disk = sort_disks(Backend::kThreads);
      write_file(sort.options.output, Bytes(10));
      ASSERT_EQ(chmod(sort.options.output.c_str(), 0640), 0);
      const SortReport report = sort.run();
      EXPECT_EQ(report.runs, 1U);
      EXPECT_EQ(report.merges, 0U);
      EXPECT_EQ(report.passes, 0U);
      EXPECT_EQ(report.run_bytes, 0U);
      EXPECT_EQ(report.folder_bytes, std::vector<std::uint64_t>{0});
      EXPECT_EQ(report.records_out, sort.list.count());
      EXPECT_EQ(report.output_bytes, sort.list.bytes.size());
      EXPECT_EQ(report.least_io_bytes, 2 * sort.list.bytes.size());
      EXPECT_LT(report.written_bytes, sort.list.bytes.size() + report.plan.block_bytes);
      sort.files.expect_nothing_left(true);
      struct stat status {};
      ASSERT_EQ(stat(sort.options.output.c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 07777, 0640U);
    }
  }
}

// Nothing of it appears when the sort fails; and runs that lie elsewhere, are packed or are several
// are merged.
TEST(ExternalSortOneRun, IsTheOutputOnlyWhereItCanBe) {
  auto random = test_random();
  const RecordFormat format(16, {parse_record_key("0:8")});
  ListSort sort(make_records(Shape::kSorted, 16, 400'000, random), format, 2 * kMiB);
  SortResources& resources = sort.options.resources;
  EXPECT_EQ(sort.run(false).merges, 1U);
  const std::vector<std::string> elsewhere = std::exchange(resources.folders, {});
  const auto writes = counted(Operation::kWrite);
  resources.open_disk = sort_disks(Backend::kThreads, writes);
  EXPECT_EQ(sort.run(false).merges, 0U);
  resources.open_disk =
      sort_disks(Backend::kThreads, error_at(writes->attempts() / 2, EIO, Operation::kWrite));
  sort.expect_end(EIO);
  resources.open_disk = sort_disks(Backend::kThreads);
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kWriting}) {
    sort.expect_stop([&](const SortProgress& now) { return now.phase == phase; });
  }
  resources.folders = {folder_of(sort.options.output), elsewhere.front()};
  EXPECT_EQ(sort.run(false).merges, 1U);
  resources.folders.clear();
  resources.compression = RunCompression::kAlways;
  const RecordList equal{16, Bytes(16 * 400'000)};
  ListSort packed(equal, format, 2 * kMiB);
  packed.options.resources = resources;
  EXPECT_EQ(packed.run(false).merges, BlockPacker::available() ? 1U : 0U);
  resources.compression = RunCompression::kNever;
  ListSort several(random_records(16, 400'000), format, 2 * kMiB);
  several.options.resources = resources;
  EXPECT_GT(several.run(false).runs, 1U);
  several.files.expect_nothing_left(false);
}

// Words in so much memory that teams sort the buckets of runs and the slices of the merge. Results
// do not depend on the threads, and whatever ends the sort ends all of them.
TEST(ExternalSortThreads, GiveTheSameAndEndTogether) {
  auto random = test_random();
  ListSort sort(random_records(8, 4'400'000), RecordFormat(8, {parse_record_key("0:8:u64")}),
                7 * kMiB);
  SortResources& resources = sort.options.resources;
  resources.block_bytes = 64 << 10;
  for (const unsigned threads : thread_counts(random)) {
    SCOPED_TRACE(threads);
    resources.threads = threads;
    const auto reads = counted(Operation::kRead);
    resources.open_disk = sort_disks(Backend::kThreads, reads);
    const SortReport report = sort.run(false);
    ASSERT_GE(report.runs, 4U);
    ASSERT_EQ(report.passes, 1U);

    // The last quarter of the reads are the merge's.
    for (const std::uint64_t at : {reads->attempts() / 3, reads->attempts() * 7 / 8}) {
      SCOPED_TRACE(at);
      resources.open_disk = sort_disks(Backend::kThreads, error_at(at, EIO, Operation::kRead));
      sort.expect_end(EIO);
    }
    resources.open_disk = sort_disks(Backend::kThreads);
    for (const SortPhase phase : {SortPhase::kReading, SortPhase::kWriting}) {
      sort.expect_stop([&](const SortProgress& now) {
        return now.phase == phase && now.bytes > report.run_bytes / 2;
      });
    }
  }
}

// Where the memory is not little: from 16 threads on four to eight buckets for each, more than half
// of them merge a part (as many as are worth it), and half partition.
TEST(ExternalSortThreads, HaveBucketsAndPartsInThePlan) {
  Files files;
  files.add_input({});
  ExternalSortOptions options = files.options();
  options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
  options.resources.request_cost_bytes = 0;
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    SCOPED_TRACE(threads);
    options.resources.threads = threads;
    options.resources.memory_bytes = std::max(threads, 16U) * 64 * kMiB;
    // A hole.
    std::filesystem::resize_file(files.path(0), 12 * options.resources.memory_bytes);
    const SortPlan plan = plan_external_sort(options);
    EXPECT_GE(plan.buckets, 4 * threads);
    EXPECT_LE(plan.buckets, std::max(8 * threads, 128U));
    EXPECT_GT(2 * plan.merge_parts, threads);
    EXPECT_LE(plan.merge_parts, threads);
    EXPECT_EQ(plan.partition_threads, threads < 4 ? 1 : threads / 2);
  }
}

// In blocks that are large enough for several threads to partition what comes in; records straddle
// them. A read that fails ends the sort, and so does a request.
TEST(ExternalSortThreads, PartitionTogether) {
  auto random = test_random();
  for (const std::size_t record_bytes : {8u, 100u}) {
    SCOPED_TRACE(record_bytes);
    ListSort sort(random_records(record_bytes, 48'000'000 / record_bytes),
                  RecordFormat(record_bytes, {parse_record_key("0:8")}), 16 * kMiB);
    SortResources& resources = sort.options.resources;
    resources.block_bytes = 512 << 10;
    for (const unsigned threads : thread_counts(random)) {
      SCOPED_TRACE(threads);
      resources.threads = threads;
      const auto reads = counted(Operation::kRead);
      resources.open_disk = sort_disks(Backend::kThreads, reads);
      EXPECT_EQ(plan_external_sort(sort.options).partition_threads, threads == 7 ? 3U : 1U);
      const SortReport report = sort.run(false);
      ASSERT_GE(report.runs, 3U);
      if (threads != 7) continue;

      resources.open_disk =
          sort_disks(Backend::kThreads, error_at(reads->attempts() / 3, EIO, Operation::kRead));
      sort.expect_end(EIO);
      resources.open_disk = sort_disks(Backend::kThreads);
      sort.expect_stop([&](const SortProgress& now) { return now.bytes > report.run_bytes / 4; });
    }
  }
}

// Lets no more than some bytes be read before the first ones are written.
class WritingFirst final : public FaultPlan {
 public:
  explicit WritingFirst(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}
  PlannedFault decide(const Attempt& attempt, std::uint64_t) noexcept override {
    if (attempt.operation == Operation::kWrite) {
      writing_.test_and_set();
      writing_.notify_all();
    } else if (read_.fetch_add(attempt.bytes) + attempt.bytes > most_bytes_) {
      writing_.wait(false);
    }
    return {};
  }

 private:
  const std::uint64_t most_bytes_;
  std::atomic<std::uint64_t> read_{0};
  std::atomic_flag writing_;
};

// An input that is a little longer than the memory is written while it is read, and no more than
// the planned runs come of it.
TEST(ExternalSortThreads, RunsOfShortInputsBeginEarly) {
  auto random = test_random();
  Files files;
  NumbersSeen in_the_input;
  {
    RecordList words = random_records(8, 160 * kMiB / 8);
    in_the_input = numbers_in(words.bytes);
    EXPECT_FALSE(in_the_input.sorted);
    files.add_input(std::move(words.bytes));
  }
  ExternalSortOptions options = files.options();
  options.format = RecordFormat(8, {parse_record_key("0:8:u64")});
  options.resources.memory_bytes = 136 * kMiB;
  for (const unsigned threads : thread_counts(random)) {
    if (kShadowMemory && threads == 1) continue;  // whose runs are as long as ever
    SCOPED_TRACE(threads);
    options.resources.threads = threads;
    options.resources.open_disk = {};
    const SortPlan plan = plan_external_sort(options);
    EXPECT_GT(plan.run_bytes, 80 * kMiB);
    // Two buckets are closed at once, and may be shorter than what a run keeps of its end: others
    // are closed while more is read, but not yet since the memory is full.
    const std::uint64_t before = threads == 1 ? ~std::uint64_t{0} : plan.run_bytes - kMiB;
    options.resources.open_disk =
        sort_disks(Backend::kThreads, std::make_shared<WritingFirst>(before));
    EXPECT_EQ(plan.least_run_bytes, threads == 1 ? plan.run_bytes : 64 * kMiB);
    const SortReport report = external_sort(options);
    // The last one stays in memory.
    EXPECT_LT(report.runs, plan.runs);
    EXPECT_GE(report.runs, 1U);
    const FileReader<std::uint64_t> sorted(files.output());
    const NumbersSeen found = numbers_in(std::as_bytes(std::span(sorted.data(), sorted.size())));
    EXPECT_TRUE(found.sorted);
    EXPECT_EQ(found.sum, in_the_input.sum);
    unlink(files.output().c_str());
  }
}

TEST(ExternalSortInput, IsRefusedWhenItIsWrong) {
  SmallSort<FixedRecords> sort;
  std::string message;
  sort.options.format = RecordFormat(FixedRecords::kRecordBytes + 1);
  EXPECT_EQ(sort.refusal(&message), EINVAL);
  EXPECT_TRUE(contains(message, "multiple"));
  sort.options.format.reset();
  EXPECT_EQ(sort.refusal(), EINVAL);
  sort.options.format = RecordFormat(FixedRecords::kRecordBytes);
  EXPECT_TRUE(fails(
      [&] { external_sort<Pair>(sort.options, [](const Pair&, const Pair&) { return false; }); },
      EINVAL));
  sort.options.resources.folders = {sort.files.path(0)};
  EXPECT_EQ(sort.refusal(), ENOTDIR);
  sort.options.resources.folders = {sort.files.file("none")};
  EXPECT_EQ(sort.refusal(), ENOENT);
}

// A pipe whose length is no multiple of the record's is found out at its end.
TEST(ExternalSortInput, APipeThatEndsWithinARecord) {
  ListSort({10, Bytes(1001)}, RecordFormat(10), kMiB, 1, true).expect_end(EINVAL);
}

// More than there is address space for.
TEST(ExternalSortInput, APipeThatIsTooLong) {
  for (const std::size_t record_bytes : {std::size_t{10}, std::size_t{64}}) {
    for (const std::uint64_t bytes : {3 * kMiB, 5 * kMiB}) {
      SCOPED_TRACE(bytes);
      ListSort sort({record_bytes, Bytes(bytes / record_bytes * record_bytes)},
                    RecordFormat(record_bytes), kMiB, 1, true);
      sort.options.most_pipe_bytes = 4 * kMiB;
      if (bytes > sort.options.most_pipe_bytes) {
        sort.expect_end(EFBIG, sort.files.path(0) + "' is longer than the 4 MiB");
      } else {
        external_sort(sort.options);
        sort.files.expect_nothing_left(true);
      }
    }
  }
}

enum class Change { kShorter, kLonger, kTouched };

// At the beginning and at the end of the reading, and while the output is written.
TEST(ExternalSortInput, MustNotChangeMeanwhile) {
  for (const bool in_memory : {false, true}) {
    for (const Change change : {Change::kShorter, Change::kLonger, Change::kTouched}) {
      for (const SortPhase phase : {SortPhase::kReading, SortPhase::kWriting}) {
        SCOPED_TRACE(static_cast<int>(change) * 10 + static_cast<int>(phase));
        SmallSort<FixedRecords> sort(in_memory);
        const std::string path = sort.files.path(0);
        // Long ago, so that a change now cannot fall into the same tick of the clock.
        const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
        ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
        bool changed = false;
        sort.options.resources.progress = [&](const SortProgress& now) {
          if (changed || now.phase != phase) return;
          changed = true;
          const auto bytes = static_cast<off_t>(sort.input.size());
          switch (change) {
            case Change::kShorter:
              ASSERT_EQ(truncate(path.c_str(), bytes / 2), 0);
              break;
            case Change::kLonger:
              ASSERT_EQ(truncate(path.c_str(), bytes + 1), 0);
              break;
            case Change::kTouched:
              ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), nullptr, 0), 0);
              break;
          }
        };
        std::string message;
        const int error = error_of([&] { external_sort(sort.options); }, &message);
        EXPECT_TRUE(changed);
        const bool cut_short = change == Change::kShorter && phase == SortPhase::kReading;
        EXPECT_EQ(error, cut_short ? ENODATA : EBUSY) << message;
        EXPECT_TRUE(contains(message, path));
        if (!cut_short) {
          EXPECT_TRUE(contains(message, "or a copy of it"));
        }
        sort.files.expect_nothing_left(false);
      }
    }
  }
}

// Holds writes back from one on until it is told to go on, and counts them all.
class HeldWrite final : public FaultPlan {
 public:
  explicit HeldWrite(std::uint64_t number) : number_(number) {}
  PlannedFault decide(const Attempt& attempt, std::uint64_t) noexcept override {
    if (attempt.operation != Operation::kWrite) return {};
    const std::uint64_t number = writes_.fetch_add(1);
    if (number >= number_) {
      held_.test_and_set();
      held_.notify_all();
      go_on_.wait(false);
    }
    return {};
  }
  void wait_until_held() { held_.wait(false); }
  void go_on() {
    go_on_.test_and_set();
    go_on_.notify_all();
  }
  std::uint64_t writes() const { return writes_.load(); }

 private:
  const std::uint64_t number_;
  std::atomic<std::uint64_t> writes_{0};
  std::atomic_flag held_, go_on_;
};

// The writes under way are waited for, and no others begin.
TEST(ExternalSortProgress, AStopIsHeardWhileARunIsWritten) {
  constexpr std::uint64_t kBefore = 5;
  ListSort sort(random_records(64, 50000), RecordFormat(64), kMiB);
  SortResources& resources = sort.options.resources;
  resources.block_bytes = 16 << 10;
  for (const unsigned threads : kThreadCounts) {
    const auto held = std::make_shared<HeldWrite>(kBefore);
    resources.threads = threads;
    resources.open_disk = sort_disks(Backend::kThreads, held);
    std::stop_source stop;
    resources.stop = stop.get_token();
    const SortPlan plan = plan_external_sort(sort.options);
    const std::uint64_t most = kBefore + plan.run_write_behind + 3;
    ASSERT_GT(plan.run_bytes / plan.block_bytes, 2 * most) << to_string(plan);
    std::thread other([&] {
      held->wait_until_held();
      stop.request_stop();
      held->go_on();
    });
    sort.expect_end(ECANCELED);
    other.join();
    EXPECT_LE(held->writes(), most);
  }
}

// A sort calls the progress function while it writes a run, too: that function may want to end the
// sort.
TEST(ExternalSortProgress, IsReportedWhileARunIsWritten) {
  ListSort sort(random_records(64, 200000), RecordFormat(64), 6 * kMiB);
  sort.options.resources.block_bytes = 64 << 10;
  // With a thread for runs, the sorting thread reports while it waits for that, and writes the last
  // run itself.
  for (const unsigned threads : kThreadCounts) {
    sort.options.resources.threads = threads;
    std::uint64_t last = 0;
    std::uint64_t reports = 0;
    unsigned for_runs = 0;
    sort.options.resources.progress = [&](const SortProgress& now) {
      if (now.phase != SortPhase::kReading) return;
      ++reports;
      // What is read is reported when it is so much more.
      const bool is_between = 0 < now.bytes && now.bytes < sort.list.bytes.size();
      if (is_between && now.bytes - last < SortWatch::kNoteBytes) ++for_runs;
      last = now.bytes;
    };
    const SortReport report = external_sort(sort.options);
    ASSERT_GT(report.runs, 1U);
    if (threads > 1) {
      EXPECT_GE(for_runs, 1U);
    } else {
      // One for each step of what is read, and of what is written: neither alone makes so many.
      // Some are half as long again, since what is read is taken up to where memory is full.
      const std::uint64_t steps = 2 * sort.list.bytes.size() / SortWatch::kNoteBytes;
      EXPECT_GE(reports, steps * 5 / 8);
    }
  }
}

class ExternalSortRoom : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRoom = 2 * kMiB;

  void SetUp() override {
    if (!system_.refusal.empty()) END_TEST_WITHOUT(system_.environment, system_.refusal);
  }
  static ListSort sort_of(std::uint64_t bytes, std::uint64_t memory_bytes, bool pipe = false) {
    return ListSort(random_records(64, bytes / 64), RecordFormat(64), memory_bytes, 1, pipe);
  }
  // Ends for lack of room, and tells how much had been read by then.
  std::uint64_t read_before_refusal(ListSort& sort) {
    std::uint64_t read_bytes = 0;
    sort.options.resources.progress = [&](const SortProgress& now) {
      if (now.phase == SortPhase::kReading) read_bytes = now.bytes;
    };
    sort.expect_end(ENOSPC);
    EXPECT_TRUE(std::filesystem::is_empty(system_.root));
    return read_bytes;
  }

  SmallFileSystem system_{"tmpfs", kRoom};
};

TEST_F(ExternalSortRoom, TooLittleIsFoundOutBeforeTheStart) {
  ListSort sort = sort_of(2 * kRoom, kMiB);
  const ExternalSortOptions elsewhere = sort.options;
  sort.options.resources.folders = {system_.root};  // for runs
  EXPECT_EQ(read_before_refusal(sort), 0U);
  sort.options = elsewhere;
  sort.options.output = system_.file("output");  // for the output
  EXPECT_EQ(read_before_refusal(sort), 0U);
  sort.options.resources.memory_bytes = 16 * kMiB;  // and when it is sorted in memory
  EXPECT_EQ(read_before_refusal(sort), 0U);
}

TEST_F(ExternalSortRoom, TooLittleIsFoundOutOnTheWay) {
  for (const bool output : {false, true}) {
    ListSort sort = sort_of(2 * kRoom, kMiB, true);
    if (output) {
      sort.options.output = system_.file("output");
    } else {
      sort.options.resources.folders = {system_.root};
    }
    EXPECT_GT(read_before_refusal(sort), 0U);
  }
}

// A folder that cannot take its share takes what it can, and is left out from there on.
TEST_F(ExternalSortRoom, AFullFolderIsLeftOut) {
  for (const PrefetchKind kind : kAllPrefetchKinds) {
    for (const bool pipe : {false, true}) {
      SCOPED_TRACE(prefetch_kind_name(kind));
      ListSort sort = sort_of(5 * kRoom / 2, kMiB / 2, pipe);
      SortResources& resources = sort.options.resources;
      resources.prefetch = kind;
      resources.folders.insert(resources.folders.begin(), system_.root);
      std::uint64_t least_free = kRoom;
      resources.progress = [&](const SortProgress&) {
        least_free = std::min(least_free, system_.free_bytes());
      };
      sort.run();
      EXPECT_LT(least_free, kRoom / 2);
    }
  }
}

// Unequal disks get shares by their speeds, whatever fetches the blocks again.
TEST(ExternalSortFolders, GetSharesByTheirSpeeds) {
  for (const PrefetchKind kind : kAllPrefetchKinds) {
    SCOPED_TRACE(prefetch_kind_name(kind));
    SmallSort<FixedRecords> sort;
    sort.options.resources.prefetch = kind;
    sort.options.resources.memory_bytes = 1 << 20;
    sort.options.resources.block_bytes = 16 << 10;
    sort.options.resources.folder_speeds = {2e8, 1e8};
    const SortReport report = external_sort(sort.options);
    ASSERT_EQ(report.folder_bytes.size(), 2U);
    EXPECT_GT(report.passes, 0U);
    EXPECT_NEAR(static_cast<double>(report.folder_bytes[0]),
                2.0 * static_cast<double>(report.folder_bytes[1]),
                0.27 * static_cast<double>(report.folder_bytes[1]));
    EXPECT_TRUE(same_bytes(read_file(sort.files.output()), FixedRecords::sorted(sort.input)));
    unlink(sort.files.output().c_str());
  }
}

// Exact, on virtual time: four disks for runs, of which the last is half as fast. In and out cost
// nothing, and neither does computing.
TEST_OF_ONE_THREAD(ExternalSortFolders, AreUsedAsFastAsTheyAre) {
  constexpr std::uint64_t kFast = 200'000'000;
  constexpr std::uint64_t kSlow = kFast / 2;
  // The time that the four disks would take if they were never idle, as a share of the sort's.
  const auto share_of_bound = [&](const std::vector<double>& speeds) {
    ListSort sort(random_records(64, 250'000), RecordFormat(64), 4 * kMiB, 4);
    SortResources& resources = sort.options.resources;
    resources.block_bytes = 16 << 10;
    resources.threads = 1;  // virtual time is for one
    resources.folder_speeds = speeds;
    const auto clock = std::make_shared<VirtualClock>();
    resources.open_disk = [clock, slow = resources.folders.back()](
                              const std::string& folder) -> std::unique_ptr<Disk> {
      constexpr std::uint64_t kFree = 1'000'000'000'000;
      const std::uint64_t speed = folder.empty() ? kFree : folder == slow ? kSlow : kFast;
      return std::make_unique<SimulatedDisk>(*clock, ServiceModel{speed, speed, 0});
    };
    const SortReport report = sort.run();
    EXPECT_EQ(report.passes, 1U);
    const double bound =
        2 * static_cast<double>(report.run_bytes) / static_cast<double>(3 * kFast + kSlow);
    return bound / (static_cast<double>(clock->now_ns()) * 1e-9);
  };
  const double with = share_of_bound({2, 2, 2, 1});
  const double without = share_of_bound({});
  EXPECT_GT(with, 0.9) << without;
  EXPECT_LT(without, 0.65);
  RecordProperty("with", std::to_string(with));
  RecordProperty("without", std::to_string(without));
}

// The check of free space counts the room that the output takes while the room of the runs comes
// back, a part at a time.
TEST_F(ExternalSortRoom, WhatIsAcceptedSuffices) {
  const std::uint64_t bytes = kRoom / 2;
  ListSort sort = sort_of(bytes, 256 << 10);
  sort.options.resources.folders = {system_.root};
  sort.options.output = system_.file("output");
  unsigned accepted = 0;
  unsigned refused = 0;
  for (std::uint64_t room = bytes - (64 << 10); room < kRoom; room += 16 << 10) {
    SCOPED_TRACE(room);
    system_.leave(room);
    std::optional<SortPhase> phase;
    sort.options.resources.progress = [&](const SortProgress& now) { phase = now.phase; };
    std::string message;
    const int error = error_of([&] { external_sort(sort.options); }, &message);
    ++(error == 0 ? accepted : refused);
    EXPECT_EQ(error, error == 0 ? 0 : ENOSPC) << message;
    EXPECT_EQ(phase.has_value(), error == 0) << "refused half-way: " << message;
    unlink(sort.options.output.c_str());
  }
  EXPECT_GT(refused, 0U);
  EXPECT_GT(accepted, 20U);
}

// Hardly more than the data: blocks that have been merged make room for what is written.
TEST_F(ExternalSortRoom, TheDataOnceAreEnough) {
  ListSort sort = sort_of(kRoom - (512 << 10), 560 << 10);
  sort.options.resources.folders = {system_.root};
  sort.options.output = system_.file("output");
  EXPECT_GT(sort.run().runs, 1U);
}

// Nobody knows how much room they have, so nobody refuses.
TEST(ExternalSortWithoutASize, RunsAndOutputGoToSuchAFileSystem) {
  for (const char* const type : {"tmpfs", "ramfs"}) {
    SCOPED_TRACE(type);
    const SmallFileSystem system(type, 0);
    if (!system.refusal.empty()) END_TEST_WITHOUT(system.environment, system.refusal);
    ListSort sort(random_records(64, 32768), RecordFormat(64), kMiB / 2);
    sort.options.output = system.file("output");
    for (const bool beside : {true, false}) {
      sort.options.resources.folders = {system.root};
      if (!beside) sort.options.resources.folders.push_back(fast_folder());
      EXPECT_GT(sort.run().runs, 1U);
    }
  }
}

// 2 MiB to another device, of a file or of a device.
class ExternalSortDevice : public ::testing::Test {
 protected:
  void open_devices(std::size_t bytes_of_output) {
    before = Bytes(bytes_of_output);
    write_file(folder.file("from"), sort.list.bytes);
    write_file(folder.file("to"), before);
    from.emplace(folder.file("from"));
    to.emplace(folder.file("to"));
    sort.options.output = to->path();
  }
  bool refused() const { return from->path().empty() || to->path().empty(); }

  ListSort sort{random_records(64, 32768), RecordFormat(64), 0};
  const TemporaryFolder folder;  // on a disk
  Bytes before;
  std::optional<LoopDevice> from, to;
};

// The last merge is divided as the memory allows, many folders or few.
TEST(ExternalSortMerging, RunsOfSortedInputsAreMergedInAnyMemory) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(8, {}));
  Turns turns(random, 3);
  for (const unsigned folders : {5U, 9U}) {
    Files files(folders);
    const RecordList all = add_inputs(files, 8, 14, false, [&] {
      return stably_sorted(order, make_records(Shape::kRandom, 8, 16'000, random));
    });
    const Bytes expected = stably_sorted(order, all).bytes;
    ExternalSortOptions options = files.options();
    options.format = order.format();
    options.merge_inputs = true;
    options.resources.block_bytes = kMinBlockBytes;
    options.resources.threads = 4;
    options.resources.sync = false;
    options.resources.memory_bytes = std::uint64_t{1} << 40;
    const std::uint64_t least = least_memory(options, false);
    unsigned to_runs = 0;
    for (std::uint64_t blocks = 0; blocks < 24; ++blocks) {
      if (blocks != 0 && turns.leave_out()) continue;
      options.resources.memory_bytes = least + blocks * kMinBlockBytes;
      SCOPED_TRACE(::testing::Message() << folders << " folders, " << blocks << " more blocks");
      const SortReport report = external_sort(options);
      EXPECT_TRUE(same_bytes(read_file(files.output()), expected));
      to_runs += report.runs > 1;
    }
    EXPECT_GT(to_runs, 0U);
  }
}

TEST_F(ExternalSortDevice, IsReadAndWritten) {
  open_devices(sort.list.bytes.size());
  if (refused()) END_TEST_WITHOUT(Environment::kLoopDevices, LoopDevice::kRefusal);
  sort.options.inputs = {from->path()};
  for (const std::uint64_t memory_bytes : {kMiB, 32 * kMiB}) {
    sort.options.resources.memory_bytes = memory_bytes;
    sort.options.output = to->path();
    EXPECT_EQ(sort.run().runs > 0, memory_bytes < sort.list.bytes.size());
    EXPECT_TRUE(same_bytes(read_file(from->path()), sort.list.bytes));
    sort.options.output = from->path();
    EXPECT_TRUE(fails([&] { external_sort(sort.options); }, EINVAL))
        << "it would overwrite its input";
  }
}

TEST_F(ExternalSortDevice, ThatIsTooSmallIsRefusedAtOnce) {
  open_devices(sort.list.bytes.size() / 2);
  if (refused()) END_TEST_WITHOUT(Environment::kLoopDevices, LoopDevice::kRefusal);
  for (const bool merge : {false, true}) {
    for (const std::uint64_t memory_bytes : {kMiB, 32 * kMiB}) {
      sort.options.merge_inputs = merge;
      sort.options.resources.memory_bytes = memory_bytes;
      EXPECT_TRUE(fails([&] { external_sort(sort.options); }, ENOSPC,
                        {"takes 2 MiB, and the device", "holds 1 MiB"}));
      EXPECT_TRUE(same_bytes(read_file(to->path()), before));
    }
  }
}

}  // namespace

}  // namespace vortex::test::external_sort_test
