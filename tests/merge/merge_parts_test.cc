// The last merge of records in parts, which threads write side by side, against std::stable_sort.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sort/job/output_parts.h"
#include "sort/job/sort_files.h"
#include "sort/merge/record_division.h"
#include "sort/merge/run_merge.h"
#include "sort/record/format_order.h"
#include "sort/record/record_output.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "study/fault_plan.h"
#include "tests/sort/record_lists.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/small_sorts.h"
#include "tests/support/temporary_folder.h"
#include "tests/thread/team_counts.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/error.h"
#include "vortex/external_sort.h"
#include "vortex/thread/control_groups.h"

namespace vortex::test::merge_parts_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr unsigned kManyThreads[] = {1, 2, 7, 16, 64, 128};

// So many runs, in blocks so small, that there is memory for several parts.
struct PartsSort : ListSort {
  PartsSort(RecordList records, RecordFormat format, unsigned threads, unsigned run_folders = 1)
      : ListSort(std::move(records), std::move(format), 2 * kMiB, run_folders) {
    SortResources& resources = options.resources;
    resources.block_bytes = std::size_t{16} << 10;
    resources.threads = threads;
    resources.compression = RunCompression::kNever;
    resources.open_disk = sort_disks(Backend::kThreads);
  }
};

RecordFormat key_of(std::size_t bytes) {
  return RecordFormat(bytes,
                      {{.offset = 0, .length = std::min<std::size_t>(bytes, 8), .type = {}}});
}

RecordList records_of(Shape shape, std::size_t record_bytes, std::uint64_t bytes,
                      std::mt19937_64& random) {
  return make_records(shape, record_bytes, bytes / record_bytes, random);
}

// The kinds of everything that parts of a merge depend on.
void note_kinds(Seen& seen, const ExternalSortOptions& options, const SortReport& report) {
  if (report.merge_parts < 2) return;
  const SortResources& resources = options.resources;
  seen.note("in parts");
  seen.note("first", resources.first_records != 0);
  seen.note("kept", report.plan.kept_bytes != 0);
  seen.note("packed", report.run_bytes < report.input_bytes / 2 && report.plan.kept_bytes == 0);
  seen.note("straddling", report.plan.block_bytes % report.plan.record_bytes != 0);
  seen.note("folders", resources.folders.size() > 1);
  seen.note("threads within", resources.threads / report.merge_parts > 1);
}

TEST(MergeParts, GiveWhatAStableSortGives) {
  auto random = test_random();
  constexpr std::size_t kSizes[] = {8, 16, 100, 7, 1000};
  const unsigned rounds = long_tests() ? 1000 : 24;
  Seen seen({{"in parts", rounds / 8 + 1},
             {"first"},
             {"kept"},
             {"packed"},
             {"straddling"},
             {"folders"},
             {"threads within"}});
  for (unsigned round = 0; seen.another(round, rounds); ++round) {
    const std::size_t record_bytes =
        round % 6 == 5 ? random_record_bytes(random) : kSizes[round % 6];
    const FormatOrder order(random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()) + ", round " + std::to_string(round));
    PartsSort sort(records_of(kShapes[random() % std::size(kShapes)], record_bytes,
                              2 * kMiB + random() % (6 * kMiB), random),
                   order.format(), kManyThreads[random() % std::size(kManyThreads)],
                   1 + random() % 3);
    SortResources& resources = sort.options.resources;
    resources.memory_bytes = kMiB + random() % (3 * kMiB);
    if (random() % 3 == 0) resources.first_records = 1 + random() % sort.list.count();
    resources.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
    resources.seed = random();
    if (random() % 4 == 0) resources.compression = RunCompression::kAlways;
    if (random() % 4 == 0) {
      resources.open_disk = sort_disks(Backend::kThreads, harmless_faults(random));
    }
    sort.options.unique = random() % 8 == 0;
    SortReport report;
    const int error = error_of([&] { report = external_sort(sort.options); });
    if (error == ENOMEM) continue;  // long records
    ASSERT_EQ(error, 0);
    RecordList expected = stably_sorted(sort.order, sort.list);
    if (sort.options.unique) expected = firsts_of_equal(sort.order, expected);
    const std::uint64_t first = resources.first_records;
    if (first != 0 && first < expected.count()) expected.bytes.resize(first * record_bytes);
    ASSERT_TRUE(same_bytes(read_file(sort.options.output), expected.bytes))
        << report.merge_parts << " parts\n"
        << to_string(report.plan);
    EXPECT_EQ(report.records_out, expected.count());
    EXPECT_EQ(report.output_bytes, expected.bytes.size());
    sort.files.expect_nothing_left(true);
    note_kinds(seen, sort.options, report);
  }
  seen.expect_all();
}

// Where keys are equal the order of the input decides, and parts are as long as others.
TEST(MergeParts, DivideEqualKeys) {
  auto random = test_random();
  for (const Shape shape : {Shape::kFewValues, Shape::kHugeAndRest}) {
    for (const std::size_t record_bytes : {16U, 100U}) {
      for (const unsigned threads : {2U, 7U}) {
        PartsSort sort(records_of(shape, record_bytes, 6 * kMiB, random), key_of(record_bytes),
                       threads);
        const SortReport report = sort.run();
        ASSERT_GT(report.runs, 1U);
        EXPECT_GE(report.merge_parts, 2U) << to_string(report.plan);
      }
    }
  }
}

// As many as the memory allows, of many runs fewer; which the plan says.
TEST(MergeParts, AreAsManyAsHaveRoom) {
  auto random = test_random();
  unsigned last = 0;
  for (const unsigned threads : kManyThreads) {
    SCOPED_TRACE(threads);
    PartsSort sort(records_of(Shape::kRandom, 8, 5 * kMiB, random), key_of(8), threads);
    const SortReport report = sort.run();
    EXPECT_GE(report.merge_parts, last);
    EXPECT_LE(report.merge_parts, threads);
    if (threads <= 2) {
      EXPECT_EQ(report.merge_parts, threads);
    }
    last = report.merge_parts;
    const SortPlan plan = plan_external_sort(sort.options);
    EXPECT_EQ(plan.merge_parts > 1, threads > 1);
    const bool told = to_string(plan).find("of each of ") != std::string::npos;
    EXPECT_EQ(told, threads > 1);
  }
  EXPECT_GT(last, 2U);
}

TEST(MergeParts, AreOneWhereTheirPlaceIsNotKnown) {
  auto random = test_random();
  PartsSort sort(records_of(Shape::kFewValues, 16, 6 * kMiB, random), key_of(16), 2);
  ASSERT_EQ(sort.run().merge_parts, 2U);
  sort.options.resources.prefetch = PrefetchKind::kStriped;
  EXPECT_EQ(sort.run().merge_parts, 1U);
  sort.options.resources.prefetch = PrefetchKind::kOptimal;
  const std::string output = sort.options.output;
  sort.options.output = sort.files.file("pipe");
  ASSERT_EQ(mkfifo(sort.options.output.c_str(), 0600), 0);
  std::string bytes;
  std::thread reader([&] {
    std::ifstream pipe(sort.options.output, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(pipe), {});
  });
  EXPECT_EQ(external_sort(sort.options).merge_parts, 1U);
  reader.join();
  EXPECT_TRUE(same_bytes(bytes_of(bytes), sort.sorted));
  sort.options.output = output;
  sort.options.unique = true;
  const SortReport report = external_sort(sort.options);
  EXPECT_EQ(report.merge_parts, 1U);
  EXPECT_GT(report.runs, 1U);
  EXPECT_TRUE(same_bytes(read_file(output),
                         firsts_of_equal(sort.order, stably_sorted(sort.order, sort.list)).bytes));
}

// An error of any request ends all of them, and nothing is left.
TEST(MergeParts, EndTogetherWhenOneFails) {
  auto random = test_random();
  for (const unsigned threads : {2U, 7U}) {
    SCOPED_TRACE(threads);
    PartsSort sort(records_of(Shape::kRandom, 100, 5 * kMiB, random), key_of(100), threads);
    const auto all = counted();
    sort.options.resources.open_disk = sort_disks(Backend::kThreads, all);
    const SortReport report = sort.run(false);
    ASSERT_GT(report.merge_parts, 1U) << to_string(report.plan);
    // Every request is one of them in turn, from the first to the last tenth: how many there are
    // differs a little from sort to sort.
    constexpr std::uint64_t kStep = 83;
    for (std::uint64_t at = random() % kStep; at < all->attempts() * 9 / 10; at += kStep) {
      SCOPED_TRACE(at);
      sort.options.resources.open_disk = sort_disks(Backend::kThreads, error_at(at, EIO));
      sort.expect_end(EIO);
      if (HasFailure()) return;
    }
    sort.options.resources.open_disk = sort_disks(Backend::kThreads);
    for (unsigned part = 0; part < 8; ++part) {
      sort.expect_stop([&](const SortProgress& now) {
        return now.phase == SortPhase::kWriting && now.bytes >= report.output_bytes * part / 9;
      });
    }
    sort.run(false);
  }
}

// What is done is told once, whichever thread has done it.
TEST(MergeParts, TellHowFarTheyAre) {
  auto random = test_random();
  PartsSort sort(records_of(Shape::kRandom, 8, 8 * kMiB, random), key_of(8), 7);
  std::uint64_t last = 0;
  sort.options.resources.progress = [&](const SortProgress& now) {
    if (now.phase != SortPhase::kWriting) return;
    EXPECT_GE(now.bytes, last);
    last = now.bytes;
    EXPECT_EQ(now.phase_bytes, 8 * kMiB);
  };
  EXPECT_GT(sort.run().merge_parts, 1U);
  EXPECT_LE(last, 8 * kMiB);
  EXPECT_GT(last, 7 * kMiB);
}

std::atomic<int> asking{0};
std::atomic<int> most_asking{0};
// The threads that have asked while the count of merges was the one that each has noted.
std::atomic<int> merges{0}, askers{0};

struct CountingLess {
  bool operator()(const KeyAndValue& a, const KeyAndValue& b) const noexcept {
    thread_local int noted = 0;
    if (const int now = merges.load(); noted != now) {
      noted = now;
      ++askers;
    }
    const int now = asking.fetch_add(1) + 1;
    if (a.value % 16384 == 0) std::this_thread::yield();  // others may come meanwhile
    for (int most = most_asking.load(); now > most;) {
      if (most_asking.compare_exchange_weak(most, now)) break;
    }
    const bool less = a.key < b.key;
    asking.fetch_sub(1);
    return less;
  }
};

// As the resources say: by no more threads at once than there are to be.
TEST(MergeParts, AskAComparatorByNoMoreThreadsThanThereAre) {
  auto random = test_random();
  for (const unsigned threads : kManyThreads) {
    SCOPED_TRACE(threads);
    PartsSort sort(records_of(Shape::kRandom, sizeof(KeyAndValue), 5 * kMiB / 2, random),
                   key_of(sizeof(KeyAndValue)), threads);
    sort.options.resources.memory_bytes = kMiB;
    sort.options.format.reset();
    asking = most_asking = 0;
    unsigned merging = 0;
    sort.options.resources.progress = [&](const SortProgress& now) {
      if (now.phase != SortPhase::kWriting || merging++ != 0) return;
      most_asking = 0;
      askers = 0;
      ++merges;
    };
    const SortReport report = external_sort<KeyAndValue>(sort.options, CountingLess());
    EXPECT_EQ(report.merge_parts > 1, threads > 1);
    EXPECT_LE(most_asking, static_cast<int>(threads));
    EXPECT_LE(askers, static_cast<int>(threads));
    EXPECT_EQ(asking, 0);
  }
}

// Notes who compares while there are counts.
struct NotingLess {
  inline static std::atomic<TeamCounts*> counts{nullptr};
  bool operator()(const KeyAndValue& a, const KeyAndValue& b) const noexcept {
    if (TeamCounts* const now = counts.load()) now->add(1);
    return a.key < b.key;
  }
};

// From the first read of the last merge on: parts are found before, by other reads.
class NotedMerge final : public FaultPlan {
 public:
  explicit NotedMerge(TeamCounts& counts) : counts_(counts) {}
  ~NotedMerge() override { NotingLess::counts.store(nullptr); }
  void last_begins() noexcept { is_last_.store(true); }
  PlannedFault decide(const Attempt& attempt, std::uint64_t /*number*/) noexcept override {
    if (attempt.operation == Operation::kRead && is_last_.load())
      NotingLess::counts.store(&counts_);
    return {};
  }

 private:
  TeamCounts& counts_;
  std::atomic<bool> is_last_{false};
};

// Of a whole sort, by several threads. None goes on before a second one compares.
TEST(MergeParts, OfAWholeSortAreForThreads) {
  auto random = test_random();
  const RecordList records = records_of(Shape::kRandom, sizeof(KeyAndValue), 5 * kMiB / 2, random);
  for (const unsigned threads : {2U, 7U, 16U}) {
    SCOPED_TRACE(threads);
    PartsSort sort(records, key_of(sizeof(KeyAndValue)), threads);
    sort.options.resources.memory_bytes = kMiB;
    sort.options.format.reset();
    TeamCounts compared(2);
    const auto noted = std::make_shared<NotedMerge>(compared);
    sort.options.resources.open_disk = sort_disks(Backend::kThreads, noted);
    sort.options.resources.progress = [&](const SortProgress& now) {
      if (now.phase == SortPhase::kWriting) noted->last_begins();
    };
    const unsigned parts = external_sort<KeyAndValue>(sort.options, NotingLess()).merge_parts;
    EXPECT_GE(parts, 2U);
    EXPECT_GE(compared.of_threads().size(), 2U);
    EXPECT_LE(compared.of_threads().size(), threads);
  }
}

// On one processor as if there were two; tests assume many.
TEST(MergeParts, AreForNoMoreThreadsThanProcessors) {
  auto random = test_random();
  PartsSort sort(records_of(Shape::kRandom, 8, 6 * kMiB, random), key_of(8), 16);
  EXPECT_EQ(sort.run().plan.threads, 16U);
  const unsigned assumed = assumed_cores();
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    assume_cores(2);
    const SortReport report = sort.run();
    EXPECT_EQ(report.plan.threads, 2U);
    EXPECT_EQ(report.merge_parts, 2U);
    EXPECT_EQ(plan_external_sort(sort.options).threads, 2U);
    assume_cores(0);
    EXPECT_EQ(sort.run().plan.threads, 1U);
  }).join();
  assume_cores(assumed);
}

// Puts records to their place, and counts them.
struct CountedPlace final : RecordOutput {
  CountedPlace(std::byte* place, TeamCounts& counts) : to(place), moved(counts) {}
  std::span<std::byte> room(std::size_t most_bytes) override { return {to, most_bytes}; }
  void written(std::size_t bytes) override {
    to += bytes;
    moved.add(bytes / kWord);
  }
  static constexpr std::size_t kWord = 8;
  std::byte* to;
  TeamCounts& moved;
};

// Each thread moves the records of one part, about as many as the others, to where they belong: no
// other one copies them. None goes on before all have moved some.
TEST(MergeParts, AreMovedByAThreadEach) {
  std::mt19937_64 random;  // always the same, so that parts are always about equal
  constexpr std::size_t kBlock = std::size_t{16} << 10, kRuns = 4;
  constexpr std::size_t kWord = CountedPlace::kWord, kOfRun = 8 * kMiB / kWord;
  const FormatOrder order(key_of(kWord));
  RecordList all{kWord, {}};
  std::vector<RecordList> lists;
  for (std::size_t i = 0; i < kRuns; ++i) {
    lists.push_back(stably_sorted(order, make_records(Shape::kRandom, kWord, kOfRun, random)));
    all.bytes.insert(all.bytes.end(), lists.back().bytes.begin(), lists.back().bytes.end());
  }
  const RecordList expected = stably_sorted(order, all);
  for (const unsigned threads :
       kShadowMemory ? std::vector{2U, 64U} : std::vector{1U, 2U, 7U, 16U, 64U, 128U}) {
    const TemporaryFolder folder(fast_folder());
    BlockPool pool({.pool_bytes = (threads + 1) * 4 * kRuns * kBlock, .block_bytes = kBlock});
    RunStoreOptions options;
    options.folders = {folder.path().string()};
    RunStore store(pool, options);
    const auto runs = std::make_shared<std::vector<vortex::Run>>();
    for (const RecordList& list : lists) {
      RunWriter writer(order, store, 3, 16 * kMiB);
      guarded([&] { append_records(writer, list.bytes.data(), kOfRun, kWord); }).throw_if_failed();
      runs->push_back(writer.finish());
    }
    const std::vector<RecordPart> divided = divide_runs(order, *runs, {}, threads, 1, 0);
    ASSERT_EQ(divided.size(), threads);
    std::vector<std::unique_ptr<PartMerge>> merges;
    std::vector<std::size_t> begins = {0};
    for (const RecordPart& part : divided) {
      merges.push_back(std::make_unique<PartMerge>(
          order, store, runs, part,
          RunMergeOptions{.read_buffers = 3 * kRuns, .working_bytes = kBlock}));
      begins.push_back(begins.back() + part.records * kWord);
    }
    Bytes merged(all.bytes.size());
    TeamCounts moved(threads);
    detail::ThreadTeam team(threads);
    team.run(threads, [&](std::size_t i) {
      CountedPlace out(merged.data() + begins[i], moved);
      EXPECT_EQ(merges[i]->merge_to(out), divided[i].records);
    });
    ASSERT_TRUE(same_bytes(merged, expected.bytes)) << threads;
    ASSERT_EQ(moved.of_threads().size(), threads);
    for (const std::uint64_t records : moved.of_threads()) {
      EXPECT_LT(records, kRuns * kOfRun / threads * 5 / 4) << threads;
      EXPECT_GT(records, kRuns * kOfRun / threads * 3 / 4) << threads;
    }
  }
}

// Each thread writes one part, whose blocks go to the file from where it has put them: no other one
// writes a byte of it. None goes on before all have begun.
TEST(MergeParts, AreWrittenByAThreadEach) {
  auto random = test_random();
  constexpr std::size_t kBlock = kMinBlockBytes;
  for (const unsigned threads : {1U, 2U, 7U, 16U, 64U, 128U}) {
    SCOPED_TRACE(threads);
    Files with;
    with.add_input({});
    const auto options = with.options<ExternalSortOptions>();
    SortFiles files(options);
    files.open_output();
    std::vector<std::uint64_t> lengths, begins = {0};
    for (unsigned i = 0; i < threads; ++i) {
      lengths.push_back(1 + random() % (3 * kBlock) + kBlock);
      begins.push_back(begins.back() + lengths.back());
    }
    const FileWriterOptions writing{
        .comeback_blocks = 0, .write_behind = 1, .request_bytes = kBlock};
    const std::size_t blocks = FileWriterBase::blocks_needed(writing, kBlock) + 1;
    BlockPool pool({.pool_bytes = threads * blocks * kBlock, .block_bytes = kBlock});
    OutputParts parts(files, pool, writing, lengths, {});
    Bytes expected(begins.back());
    for (std::byte& byte : expected) byte = static_cast<std::byte>(random());
    TeamCounts written(threads);
    detail::ThreadTeam team(threads);
    SortWatch watch({}, {});
    parts.write(team, watch, [&](std::size_t i, Written) {
      written.add(lengths[i]);
      PointerOutput to(parts[i].behind_head, 1, kBlock, parts[i].head);
      guarded([&] {
        append_records(to, expected.data() + begins[i], lengths[i], 1);
      }).throw_if_failed();
      return lengths[i];
    });
    parts.finish();
    std::vector<std::uint64_t> of_threads = written.of_threads();
    std::ranges::sort(of_threads);
    std::ranges::sort(lengths);
    EXPECT_EQ(of_threads, lengths);
    EXPECT_TRUE(same_bytes(read_file(with.output()), expected));
  }
}

// A head that ends within a record.
TEST(MergeParts, BeginWithinABlock) {
  auto random = test_random();
  constexpr std::size_t kBlock = 4096;
  for (int round = 0; round < 200; ++round) {
    const std::size_t record_bytes = 1 + random() % (round % 2 == 0 ? 9 : kBlock);
    const std::size_t head_bytes = random() % kBlock;
    const RecordList list = make_records(Shape::kRandom, record_bytes,
                                         head_bytes / record_bytes + 1 + random() % 50, random);
    Bytes head(head_bytes), array(list.bytes.size() + kBlock);
    PointerOutput out(array.data(), record_bytes, kBlock, head);
    NotedEnds ends(out, record_bytes);
    EXPECT_TRUE(ends.empty());
    for (std::size_t done = 0; done < list.bytes.size();) {
      const std::size_t most = list.bytes.size() - done;
      const std::span<std::byte> room = ends.room(most);
      ASSERT_GT(room.size(), 0U);
      ASSERT_EQ(room.size() % record_bytes, 0U);
      ASSERT_LE(room.size(), most);
      const std::size_t some =
          random() % 3 == 0 ? room.size() / record_bytes / 2 * record_bytes : room.size();
      std::memcpy(room.data(), list.bytes.data() + done, some);
      ends.written(some);
      done += some;
    }
    head.insert(head.end(), array.begin(), array.end());
    head.resize(list.bytes.size());
    ASSERT_TRUE(same_bytes(head, list.bytes)) << record_bytes << " behind " << head_bytes;
    EXPECT_EQ(std::memcmp(ends.first(), list.at(0), record_bytes), 0);
    EXPECT_EQ(std::memcmp(ends.last(), list.at(list.count() - 1), record_bytes), 0);
  }
}

}}  // namespace vortex::test::merge_parts_test
