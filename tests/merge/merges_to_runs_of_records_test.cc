// Merges of runs of records to longer runs, which threads write in parts: against std::stable_sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "sort/job/run_collection.h"
#include "sort/merge/merge_passes.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/record_plan.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/format_order.h"
#include "sort/record/record_output.h"
#include "sort/runs/block_packer.h"
#include "sort/runs/run_packing.h"
#include "sort/runs/run_store.h"
#include "sort/runs/run_writer.h"
#include "sort/runs/sort_watch.h"
#include "tests/disk/test_disk.h"
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
#include "vortex/detail/merge/record_kernels.h"
#include "vortex/external_sort.h"
#include "vortex/sorter.h"

namespace vortex::test::merges_to_runs_of_records_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBlock = kMinBlockBytes;
constexpr unsigned kManyThreads[] = {1, 2, 7, 16, 64, 128};

// A store of runs on a pool, of which nothing is left in the end.
struct RunHouse {
  RunHouse(std::size_t blocks, unsigned count)
      : pool({.pool_bytes = blocks * kBlock, .block_bytes = kBlock}) {
    for (unsigned i = 0; i < count; ++i) {
      options.folders.push_back(folders.emplace_back(fast_folder()).path().string());
    }
    store.emplace(pool, options);
  }
  ~RunHouse() {
    EXPECT_EQ(store->bytes_in_use(), 0U);
    EXPECT_EQ(pool.statistics().blocks_in_use, 0U);
    EXPECT_EQ(pool.statistics().blocks_guaranteed, 0U);
  }

  std::deque<TemporaryFolder> folders;
  RunStoreOptions options;
  BlockPool pool;
  std::optional<RunStore> store;
};

// The run has these records, in whole blocks, with what foretells when they are needed: the last
// record that ends in each.
void expect_run_of(const vortex::Run& run, const RecordList& list, const RecordOrder& order) {
  ASSERT_EQ(run.records, list.count());
  ASSERT_EQ(run.bytes, list.bytes.size());
  ASSERT_EQ(run.blocks(), run.store->blocks_of(run.bytes));
  Bytes read(run.bytes);
  ASSERT_EQ(RunBytes(run).read_checked(0, read), 0);
  ASSERT_TRUE(same_bytes(read, list.bytes));
  const ForecastKeys keys(order);
  Bytes forecasts(run.blocks() * keys.bytes());
  for (std::uint64_t block = 0; block < run.blocks(); ++block) {
    const std::uint64_t end = std::min(run.bytes, (block + 1) * kBlock) / list.record_bytes;
    keys.make(list.at(end - 1), forecasts.data() + block * keys.bytes());
  }
  ASSERT_TRUE(same_bytes(run.forecast_keys, forecasts));
}

// The parts of a run are the blocks of a run that is written from its beginning, with what
// foretells when they are needed: the last record that ends in each.
TEST(MergesToRunsOfRecords, JoinPartsToARun) {
  auto random = test_random();
  Seen seen({{"straddling"}, {"packed"}, {"folders"}, {"long records"}, {"block borders"}});
  for (unsigned round = 0; seen.another(round, 75); ++round) {
    const std::size_t record_bytes =
        round % 5 == 0 ? 1 + random() % kBlock : random_record_bytes(random);
    const FormatOrder order(random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()) + ", round " + std::to_string(round));
    const std::uint64_t least = kBlock / record_bytes + 2;
    const std::size_t parts = 1 + random() % 7;
    const bool at_borders = kBlock % record_bytes == 0 && random() % 3 == 0;
    std::vector<std::uint64_t> begins = {0};
    for (std::size_t i = 0; i < parts; ++i) {
      const std::uint64_t more = at_borders ? (1 + random() % 4) * (kBlock / record_bytes)
                                            : least + random() % (3 * least);
      begins.push_back(begins.back() + more);
    }
    const RecordList list =
        stably_sorted(order, make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                                          static_cast<std::size_t>(begins.back()), random));
    const bool packs = random() % 3 == 0;
    const auto folders = static_cast<unsigned>(1 + random() % 3);
    RunHouse house(parts * 6, folders);
    std::vector<std::unique_ptr<RunPacking>> packings;
    std::vector<std::unique_ptr<RunPartWriter>> writers;
    for (std::size_t i = 0; i < parts; ++i) {
      packings.push_back(std::make_unique<RunPacking>(
          packs ? RunCompression::kAlways : RunCompression::kNever, kBlock, record_bytes));
      writers.push_back(std::make_unique<RunPartWriter>(
          order, *house.store, 2, begins[i] * record_bytes, begins[i + 1] * record_bytes,
          packings.back().get(), std::stop_token()));
    }
    detail::ThreadTeam team(3);
    team.run(parts, [&](std::size_t i) {
      guarded([&] {
        append_records(*writers[i], list.at(begins[i]), begins[i + 1] - begins[i], record_bytes);
      }).throw_if_failed();
    });
    {
      const vortex::Run run = run_of_parts(writers);
      writers.clear();
      expect_run_of(run, list, order);
      seen.note("packed", parts > 1 && run.stored_bytes() < run.bytes / 2);
    }
    if (parts == 1) continue;
    seen.note("straddling", kBlock % record_bytes != 0);
    seen.note("folders", folders > 1);
    seen.note("long records", record_bytes > kBlock / 2);
    seen.note("block borders", at_borders);
  }
  seen.expect_all();
}

// What a collection of runs needs.
struct PassOptions {
  std::uint64_t memory_bytes = 16 * kMiB;
  unsigned threads = 1;
  unsigned folders = 1;
  std::uint64_t first_records = 0;
  bool unique = false;
  RunCompression compression = RunCompression::kNever;
  PrefetchKind prefetch = PrefetchKind::kOptimal;
  SortDiskFunction open_disk = sort_disks(Backend::kThreads);
  std::function<void()> merging = {};  // called when a pass begins
};

// Runs that are formed of records, and merged.
class RunsOfRecords {
 public:
  RunsOfRecords(const RecordOrder& order, PassOptions options)
      : order_(order), options_(std::move(options)) {
    SortPlanRequest request;
    request.bytes = 4 * options_.memory_bytes;
    request.record_bytes = order.record_bytes();
    request.forecast_bytes = ForecastKeys(order).bytes();
    request.memory_bytes = options_.memory_bytes;
    request.disks = options_.folders;
    request.block_bytes = kBlock;
    request.threads = options_.threads;
    request.prefetch = options_.prefetch;
    request.compression = options_.compression;
    request.in_parts = request.runs_in_parts = !options_.unique;
    request.first_records = options_.first_records;
    plan = plan_sort(request);
    plan.held_blocks = 0;
    pool.emplace(BlockPoolOptions{.pool_bytes = plan.pool_blocks * plan.block_bytes,
                                  .block_bytes = plan.block_bytes});
    watch.emplace(stop.get_token(), [this](const SortProgress& now) {
      if (now.phase != SortPhase::kMerging) return;
      told.push_back(now);
      if (now.bytes == 0 && options_.merging) options_.merging();
    });
    RunStoreOptions store;
    for (unsigned i = 0; i < options_.folders; ++i) {
      store.folders.push_back(folders.emplace_back(fast_folder()).path().string());
    }
    store.open_disk = [this](std::size_t) { return options_.open_disk("runs"); };
    runs.emplace(order_, plan, *pool, *watch, std::move(store), options_.unique, nullptr);
  }

  // Of as many slices of the records, which differ in length.
  void form(const RecordList& list, std::size_t count, std::mt19937_64& random) {
    std::size_t begin = 0;
    for (std::size_t i = 1; i <= count; ++i) {
      const std::size_t at = list.count() * i / count;
      const std::size_t end = i == count ? at : at - random() % (1 + list.count() / count / 4);
      RecordList slice{list.record_bytes, {list.at(begin), list.at(end)}};
      slice = stably_sorted(order_, slice);
      runs->form(slice.bytes.size(), [&](RecordOutput& out) {
        guarded([&] {
          append_records(out, slice.bytes.data(), slice.count(), slice.record_bytes);
        }).throw_if_failed();
      });
      begin = end;
    }
  }
  // What the runs that are left have, merged.
  Bytes rest() {
    RecordCollector out(order_.record_bytes());
    runs->merge_all(out, plan.merge_buffers(runs->size()).read_buffers);
    return out.list.bytes;
  }

  std::deque<TemporaryFolder> folders;
  std::stop_source stop;
  RecordPlan plan;
  std::vector<SortProgress> told;  // of merging
  std::optional<BlockPool> pool;
  std::optional<SortWatch> watch;
  std::optional<RunCollection> runs;

 private:
  const RecordOrder& order_;
  const PassOptions options_;
};

struct KeyLess {
  bool operator()(const KeyAndValue& a, const KeyAndValue& b) const noexcept {
    return a.key < b.key;
  }
};

// A merge that counts the records that each thread of those who call it gets from it.
class CountedMerge final : public RecordMerge {
 public:
  CountedMerge(std::unique_ptr<RecordMerge> merge, TeamCounts& counts)
      : merge_(std::move(merge)), counts_(counts) {}
  void start() noexcept override { merge_->start(); }
  std::uint64_t records_left() const noexcept override { return merge_->records_left(); }
  void merge(std::uint64_t count, RecordOutput& out) override {
    counts_.add(count);
    merge_->merge(count, out);
  }

 private:
  const std::unique_ptr<RecordMerge> merge_;
  TeamCounts& counts_;
};

// Its merges are counted, until there is nothing to count them.
using KeyOrder = detail::OrderBy<detail::ComparatorRules<KeyAndValue, KeyLess>>;
class CountedOrder final : public KeyOrder {
 public:
  CountedOrder() : KeyOrder(detail::ComparatorRules<KeyAndValue, KeyLess>()) {}
  std::unique_ptr<RecordMerge> merge(std::span<const MergeInput> inputs,
                                     const MergeRoom& room) const override {
    std::unique_ptr<RecordMerge> merge = KeyOrder::merge(inputs, room);
    TeamCounts* const to = counts.load();
    if (to == nullptr) return merge;
    return std::make_unique<CountedMerge>(std::move(merge), *to);
  }

  mutable std::atomic<TeamCounts*> counts{nullptr};
};

// Each thread merges a part to a part of the run, about as long as the others.
TEST(MergesToRunsOfRecords, AreAPartForEachThread) {
  std::mt19937_64 random;  // always the same, so that parts are always about equal
  for (const unsigned threads : kManyThreads) {
    if (threads > 64 || (kShadowMemory && threads > 16)) continue;
    SCOPED_TRACE(threads);
    constexpr std::size_t kOfPart = 12 * kBlock / sizeof(KeyAndValue);
    const RecordList list =
        make_records(Shape::kRandom, sizeof(KeyAndValue), threads * kOfPart * 3 / 2, random);
    CountedOrder order;
    TeamCounts counts(threads);
    RunsOfRecords of(order, {.memory_bytes = 64 * kMiB, .threads = threads});
    of.form(list, 3, random);
    EXPECT_EQ(of.plan.run_parts(2), threads);
    order.counts = &counts;
    of.runs->reduce_to(2);
    order.counts = nullptr;
    ASSERT_EQ(of.runs->size(), 2U);
    const std::vector<std::uint64_t> merged = counts.of_threads();
    ASSERT_EQ(merged.size(), threads);
    for (const std::uint64_t records : merged) {
      EXPECT_GT(records, counts.all() / threads / 2);
      EXPECT_LT(records, counts.all() / threads * 2);
    }
    ASSERT_TRUE(same_bytes(of.rest(), stably_sorted(order, list).bytes));
  }
}

PassOptions random_options(std::size_t records, std::mt19937_64& random) {
  PassOptions options;
  options.threads = kManyThreads[random() % std::size(kManyThreads)];
  options.memory_bytes = (options.threads > 16 ? 48 : 8) * kMiB;
  options.folders = static_cast<unsigned>(1 + random() % 3);
  if (random() % 4 == 0) options.first_records = 1 + random() % records;
  options.unique = random() % 8 == 0;
  if (random() % 3 == 0) options.compression = RunCompression::kAlways;
  options.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
  if (random() % 4 == 0) {
    options.open_disk = sort_disks(Backend::kThreads, harmless_faults(random));
  }
  return options;
}

TEST(MergesToRunsOfRecords, GiveWhatAStableSortGives) {
  auto random = test_random();
  constexpr std::size_t kSizes[] = {8, 16, 100, 7, 1000};
  const unsigned rounds = 24;
  Seen seen({{"in parts", rounds / 3},
             {"first"},
             {"unique"},
             {"packed"},
             {"straddling"},
             {"folders"},
             {"striped"},
             {"several groups"},
             {"one thread"}});
  for (unsigned round = 0; seen.another(round, rounds); ++round) {
    const std::size_t record_bytes =
        round % 6 == 5 ? random_record_bytes(random) : kSizes[round % 6];
    const FormatOrder order(random_format(record_bytes, random));
    const RecordList list =
        make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                     (kMiB / 2 + random() % (3 * kMiB / 2)) / record_bytes, random);
    const PassOptions options = random_options(list.count(), random);
    const std::size_t count = 3 + random() % 9;
    const std::uint64_t left = 2 + random() % (count - 2);
    SCOPED_TRACE(::testing::Message()
                 << to_string(order.format()) << ", round " << round << ", threads "
                 << options.threads << ", runs " << count << " to " << left);
    RecordList expected = stably_sorted(order, list);
    if (options.unique) expected = firsts_of_equal(order, expected);
    const std::uint64_t first = options.first_records;
    if (first != 0 && first < expected.count()) expected.bytes.resize(first * record_bytes);
    RunsOfRecords of(order, options);
    of.form(list, count, random);
    const std::uint64_t written = of.runs->counts().bytes;
    of.runs->reduce_to(left);
    ASSERT_LE(of.runs->size(), left);
    EXPECT_EQ(of.pool->statistics().blocks_guaranteed, 0U);
    EXPECT_EQ(of.pool->statistics().blocks_in_use, 0U);
    const std::uint64_t to_runs = of.runs->counts().bytes - written;
    EXPECT_GT(to_runs, 0U);
    if (first != 0) {
      EXPECT_LE(to_runs, of.runs->counts().merges * first * record_bytes);
    }
    ASSERT_TRUE(same_bytes(of.rest(), expected.bytes));
    const bool in_parts = of.plan.run_parts(2) > 1;
    seen.note("in parts", in_parts);
    seen.note("first", in_parts && first != 0);
    seen.note("unique", options.unique);
    seen.note("packed", in_parts && of.runs->counts().bytes < list.bytes.size() / 2);
    seen.note("straddling", in_parts && kBlock % record_bytes != 0);
    seen.note("folders", in_parts && options.folders > 1);
    seen.note("striped", options.prefetch == PrefetchKind::kStriped);
    seen.note("several groups", in_parts && of.runs->counts().merges > 2);
    seen.note("one thread", options.threads == 1);
  }
  seen.expect_all();
}

// An error of any request ends all parts, and what they have taken is given back; so does a stop.
TEST(MergesToRunsOfRecords, EndTogetherWhenOneFails) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(100, {{.offset = 0, .length = 8, .type = {}}}));
  const RecordList list = make_records(Shape::kRandom, 100, 15'000, random);
  for (const unsigned threads : {1U, 2U, 7U, 16U}) {
    SCOPED_TRACE(threads);
    const auto all = counted();
    std::uint64_t formed = 0;
    PassOptions options{.memory_bytes = 8 * kMiB, .threads = threads};
    {
      options.open_disk = sort_disks(Backend::kThreads, all);
      options.merging = [&] { formed = all->attempts(); };
      RunsOfRecords of(order, options);
      of.form(list, 5, random);
      of.runs->reduce_to(2);
    }
    ASSERT_GT(all->attempts(), formed + 50);
    for (int i = 0; i < 8; ++i) {
      const bool stops = i % 4 == 3;
      const std::uint64_t at = random() % ((all->attempts() - formed) * 9 / 10);
      SCOPED_TRACE(at);
      RunsOfRecords* stopped = nullptr;
      const auto error = std::make_shared<LaterError>(at, EIO);
      options.merging = [&] { stops ? void(stopped->stop.request_stop()) : error->begin(); };
      options.open_disk = sort_disks(Backend::kThreads, error);
      RunsOfRecords of(order, options);
      stopped = &of;
      of.form(list, 5, random);
      EXPECT_EQ(error_of([&] { of.runs->reduce_to(2); }), stops ? ECANCELED : EIO);
      EXPECT_EQ(of.pool->statistics().blocks_guaranteed, 0U);
    }
  }
}

// A disk that changes what was written is found out.
TEST(MergesToRunsOfRecords, FindDamage) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(16, {{.offset = 0, .length = 8, .type = {}}}));
  const RecordList list = make_records(Shape::kRandom, 16, 200'000, random);
  for (const std::uint64_t from : {std::uint64_t{0}, 1 + random() % 100}) {
    RunsOfRecords of(
        order, {.threads = 7, .open_disk = sort_disks(Backend::kThreads, damaged_writes(from))});
    of.form(list, 3, random);
    const int error = error_of([&] {
      of.runs->reduce_to(2);
      of.rest();
    });
    EXPECT_TRUE(error == EBADMSG || error == EIO) << error;
  }
}

// What threads beside the caller have merged is told once.
TEST(MergesToRunsOfRecords, TellHowFarTheyAre) {
  auto random = test_random();
  const FormatOrder order(RecordFormat(8, {{.offset = 0, .length = 8, .type = {}}}));
  const RecordList list = make_records(Shape::kRandom, 8, 8 * kMiB / 8, random);
  RunsOfRecords of(order, {.threads = 7});
  of.form(list, 3, random);
  of.runs->reduce_to(2);
  ASSERT_GE(of.told.size(), 2U);
  EXPECT_TRUE(std::ranges::is_sorted(of.told, {}, &SortProgress::bytes));
  ASSERT_TRUE(of.told.front().phase_bytes);
  const std::uint64_t all = *of.told.front().phase_bytes;
  EXPECT_GT(all, 8 * kMiB / 2);  // of two of the three runs
  EXPECT_LE(of.told.back().bytes, all);
  EXPECT_GT(of.told.back().bytes, all - 2 * SortWatch::kNoteBytes);
}

// The plan of a sort says how many threads merge runs to runs, and how many of these at a time; as
// many do.
TEST(MergesToRunsOfRecords, AreAsThePlanOfASortSays) {
  auto random = test_random();
  constexpr std::size_t kBytes = sizeof(KeyAndValue);
  unsigned most = 0;
  struct Case {
    unsigned threads;
    std::uint64_t memory_kib;
    std::uint64_t records;
  };
  for (const auto [threads, memory_kib, records] :
       {Case{1, 448, 250'000}, {2, 512, 400'000}, {7, 512, 400'000}, {16, 896, 1'150'000}}) {
    SCOPED_TRACE(threads);
    const std::uint64_t memory = memory_kib << 10;
    ListSort sort(
        make_records(Shape::kRandom, kBytes, records, random),
        RecordFormat(kBytes, {{.offset = 0, .length = 8, .type = parse_key_type("u64", "")}}),
        memory);
    SortResources& resources = sort.options.resources;
    resources.block_bytes = kBlock;
    resources.threads = threads;
    resources.compression = RunCompression::kNever;
    const auto order = std::make_shared<CountedOrder>();
    resources.open_disk = sort_disks(Backend::kThreads);
    sort.options.format.reset();
    const SortPlan plan = plan_external_sort(sort.options, order);
    ASSERT_GE(plan.expected_passes, 2U) << to_string(plan);
    ASSERT_GE(plan.pass_parts, 1U);
    ASSERT_GE(plan.pass_order, 2U);
    const std::string told =
        "merges to runs  of " + std::to_string(plan.pass_order) + " runs at most" +
        (plan.pass_parts == 1 ? "" : ", in " + std::to_string(plan.pass_parts) + " parts each") +
        "\n";
    EXPECT_NE(to_string(plan).find(told), std::string::npos) << to_string(plan);
    TeamCounts counts(plan.pass_parts);
    resources.progress = [&](const SortProgress& now) {
      order->counts = now.phase == SortPhase::kMerging ? &counts : nullptr;
    };
    const SortReport report = external_sort(sort.options, order);
    EXPECT_GE(report.passes, 2U);
    EXPECT_EQ(counts.of_threads().size(), plan.pass_parts) << to_string(plan);
    EXPECT_LE(plan.pass_parts, threads);
    EXPECT_TRUE(
        same_bytes(read_file(sort.options.output), stably_sorted(sort.order, sort.list).bytes));
    most = std::max(most, plan.pass_parts);
  }
  EXPECT_GT(most, 2U);
}

// A sorter, which has no output of its own.
void expect_sorter(const ListSort& sort, Seen& seen) {
  RecordSorter sorter(sort.options.resources, sort.order.format());
  sorter.push(sort.list.bytes);
  sorter.sort();
  Bytes sorted(sort.list.bytes.size());
  guarded([&] {
    // A copy of all at once would touch the end first.
    constexpr std::size_t kPiece = 4096;
    for (std::size_t at = 0; at < sorted.size(); at += kPiece) {
      std::memcpy(sorted.data() + at, sorter.data() + at, std::min(kPiece, sorted.size() - at));
    }
  }).throw_if_failed();
  EXPECT_TRUE(same_bytes(sorted, sort.sorted));
  seen.note("sorter", sorter.counts().passes > 1);
}

// Sorts in several passes end whole or with nothing left.
TEST(MergesToRunsOfRecords, OfSorts) {
  auto random = test_random();
  constexpr std::size_t kSizes[] = {8, 16, 100, 7, 1000};
  const std::size_t first_size = random() % std::size(kSizes);
  Seen seen({{"in parts", 2}, {"unique"}, {"sorter"}});
  for (unsigned round = 0; seen.another(round, kShadowMemory ? 2 : 3); ++round) {
    const std::size_t record_bytes = kSizes[(first_size + round) % std::size(kSizes)];
    const unsigned threads = 2 + static_cast<unsigned>(random() % 6);
    // The least with which two threads merge runs to runs, or room for more of them.
    const bool has_more = random() % 8 == 0;
    const std::uint64_t least = record_bytes > 16 ? 768 : 512;
    const std::uint64_t memory = (has_more ? 512 + 128 * threads : least + random() % 32) << 10;
    const std::uint64_t times = has_more ? 24 + random() % 12 : 12 + random() % 2;
    const FormatOrder order(random_format(record_bytes, random));
    SCOPED_TRACE(to_string(order.format()) + ", round " + std::to_string(round));
    ListSort sort(make_records(kShapes[random() % std::size(kShapes)], record_bytes,
                               times * memory / record_bytes, random),
                  order.format(), memory, 1 + random() % 2);
    SortResources& resources = sort.options.resources;
    resources.block_bytes = kBlock;
    resources.threads = threads;
    resources.compression = RunCompression::kNever;
    const auto all = counted();
    resources.open_disk = sort_disks(Backend::kThreads, all);
    sort.options.unique = round % 4 == 1;
    const RecordList sorted = stably_sorted(order, sort.list);
    sort.sorted = (sort.options.unique ? firsts_of_equal(order, sorted) : sorted).bytes;
    const SortReport report = sort.run(false);
    const std::uint64_t attempts = all->attempts();
    // How many runs there are differs a little from sort to sort.
    if (report.runs < report.plan.merge_order * 4 / 3) continue;
    ASSERT_GE(report.passes, 2U);
    seen.note("in parts", report.plan.pass_parts > 1);
    seen.note("unique", sort.options.unique);
    EXPECT_TRUE(!sort.options.unique || report.plan.pass_parts <= 1);
    if (!sort.options.unique && round % 2 == 0) expect_sorter(sort, seen);
    sort.expect_stop([](const SortProgress& now) { return now.phase == SortPhase::kMerging; });
    resources.open_disk =
        sort_disks(Backend::kThreads, error_at(random() % (attempts * 2 / 3), EIO));
    sort.expect_end(EIO);
  }
  seen.expect_all();
}

SortPlanRequest random_request(std::mt19937_64& random) {
  SortPlanRequest request;
  request.record_bytes = random_record_bytes(random);
  request.bytes = (kMiB << random() % 16) + random() % kMiB;
  request.forecast_bytes = 8;
  request.memory_bytes = (kMiB << random() % 12) + random() % kMiB;
  request.threads = kManyThreads[random() % std::size(kManyThreads)];
  request.disks = static_cast<unsigned>(1 + random() % 4);
  request.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
  if (random() % 2 == 0) request.block_bytes = kMinBlockBytes << random() % 7;
  if (random() % 4 == 0) request.request_cost_bytes = kMiB;
  if (random() % 2 == 0) request.compression = RunCompression::kAlways;
  request.in_parts = random() % 2 == 0;
  request.runs_in_parts = random() % 8 != 0;
  return request;
}

// Blocks of buffers, writers and heads, and packers beyond what is planned for one merge, are in
// the memory of the plan; and fewer runs at a time take no more passes.
TEST(MergesToRunsOfRecords, TakeNoMoreThanTheMemory) {
  auto random = test_random();
  Seen seen({{"in parts", 100}, {"fewer runs", 20}, {"packed in parts", 20}});
  for (unsigned round = 0; seen.another(round, 2000); ++round) {
    const SortPlanRequest request = random_request(random);
    RecordPlan plan;
    if (error_of([&] { plan = plan_sort(request); }) != 0 || plan.in_memory()) continue;
    plan.held_blocks = 0;
    const std::uint64_t largest = plan.largest_merge_order();
    const std::uint64_t most = 2 + random() % (largest - 1);
    const std::uint64_t runs = most + 1 + random() % (4 * largest);
    const std::uint64_t order = plan.pass_order(runs, most);
    SCOPED_TRACE(::testing::Message() << to_string(plan.told()) << runs << " runs to " << most
                                      << ", " << order << " at a time of " << largest);
    ASSERT_LE(order, largest);
    ASSERT_GE(order, 2U);
    const MergeCost least = cost_of_passes(runs, most, largest);
    const MergeCost cost = cost_of_passes(runs, most, order);
    ASSERT_EQ(cost.passes, least.passes);
    ASSERT_LE(cost.merged, least.merged * 5 / 4);
    const unsigned parts = plan.run_parts(order);
    ASSERT_LE(parts, request.threads);
    ASSERT_LE(parts, request.request_cost_bytes != 0 ? 2U : parts);
    if (!request.runs_in_parts || request.prefetch == PrefetchKind::kStriped) {
      ASSERT_EQ(parts, 1U);
      ASSERT_EQ(order, largest);
    }
    seen.note("fewer runs", order < largest);
    if (parts == 1) continue;
    const MergeBuffers buffers = plan.merge_buffers(order, parts);
    ASSERT_GE(buffers.read_buffers, plan.reading().least_buffers(order));
    const std::size_t blocks =
        buffers.read_buffers + RunPartWriter::kBlocksForHead +
        RunWriter::blocks_needed(plan.block_bytes, plan.record_bytes, buffers.run_write_behind);
    ASSERT_LE(parts * blocks, plan.pool_blocks);
    seen.note("in parts");
    if (plan.compression == RunCompression::kNever) continue;
    const std::uint64_t packers = 2 * parts * BlockPacker::memory_bytes(plan.block_bytes);
    ASSERT_LE(packers, plan.packing_memory_bytes + plan.formation.scratch_bytes);
    seen.note("packed in parts");
  }
  seen.expect_all();
}

}}  // namespace vortex::test::merges_to_runs_of_records_test
