// Merges of runs of lines to longer runs, which threads write in parts: against std::stable_sort.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "lines/job/line_plan.h"
#include "lines/job/line_runs.h"
#include "lines/job/merge_tree.h"
#include "lines/record/stored_record.h"
#include "sort/job/sort_folders.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/runs/block_packer.h"
#include "sort/runs/sort_watch.h"
#include "study/fault_plan.h"
#include "tests/lines/line_folder.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "tests/thread/team_counts.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/line_sort.h"

namespace vortex::test::merges_to_runs_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr unsigned kThreads[] = {1, 2, 7, 16, 64, 128};

// Counts the comparisons of each thread from a moment on. None goes on before all have come.
class CountedKeys final : public RecordKeys {
 public:
  explicit CountedKeys(std::size_t threads) : counts_(threads) {}
  void begin() noexcept { begun_.store(true); }
  std::vector<std::uint64_t> of_threads() const { return counts_.of_threads(); }

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (std::size_t i = 0; i < records.size(); ++i) keys.end_key();
  }
  bool shortened() const noexcept override { return true; }
  void append_whole(std::string_view record, std::string& key) const override { key += record; }
  int compare_whole(std::string_view a, std::string_view b) const override {
    if (begun_.load()) counts_.add(1);
    return a.compare(b);
  }

 private:
  mutable TeamCounts counts_;
  std::atomic<bool> begun_{false};
};

// Tells of the first read of a merge, or of the last one: runs are divided before, by other reads.
class FirstRead final : public FaultPlan {
 public:
  explicit FirstRead(CountedKeys& keys, bool of_last = false) : keys_(keys), waits_(of_last) {}
  void last_begins() noexcept { waits_.store(false); }
  PlannedFault decide(const Attempt& attempt, std::uint64_t /*number*/) noexcept override {
    if (attempt.operation == Operation::kRead && !waits_.load()) keys_.begin();
    return {};
  }

 private:
  CountedKeys& keys_;
  std::atomic<bool> waits_;
};

// Runs that are formed of lines, and merged while the memory of the plan is larger than it said
// first: so few runs become one, in many parts.
class RunsOfLines {
 public:
  RunsOfLines(const LineSortOptions& options, std::uint64_t memory_bytes, unsigned threads,
              SortDiskFunction open_disk, std::function<void()> merging = {})
      : line_order_(options.order), order_(options.order), merging_(std::move(merging)) {
    SortResources resources = options.resources;
    resources.memory_bytes = memory_bytes;
    resources.block_bytes = kMinBlockBytes;
    resources.threads = threads;
    plan = plan_lines(resources, 1024 * kMiB);
    plan.first_records = resources.first_records;
    pool_blocks_ = plan.pool_blocks;
    pool.emplace(BlockPoolOptions{.pool_bytes = pool_blocks_ * plan.block_bytes,
                                  .block_bytes = plan.block_bytes});
    watch.emplace(stop.get_token(), [this](const SortProgress& now) { note(now); });
    RunStoreOptions store{.folders = resources.folders};
    store.open_disk = [open_disk](std::size_t) { return open_disk("runs"); };
    runs.emplace(order_, plan, *pool, *watch, std::move(store));
    team.emplace(threads);
  }

  // Of as many slices of the lines, which differ in length by `spread` at most.
  void form(const Lines& lines, std::size_t count, std::size_t spread, std::mt19937_64& random) {
    const auto at = [&](std::size_t index) {
      return lines.begin() + static_cast<std::ptrdiff_t>(index);
    };
    std::size_t begin = 0;
    for (std::size_t i = 1; i <= count; ++i) {
      const std::size_t end =
          i == count ? lines.size() : lines.size() * i / count - random() % (spread + 1);
      form(sorted(Lines(at(begin), at(end)), line_order_));
      begin = end;
    }
  }

  // Until `left` are left.
  void reduce(std::uint64_t left) {
    plan.pool_blocks = 1;
    while (plan.most_runs(longest_, blocks_) < left) ++plan.pool_blocks;
    runs->reduce_to_one_merge(false, 1, &*team);
  }
  // What the runs that are left have, merged; equal records as many times as they are there.
  Lines rest() {
    RunningMerges running;
    return all_of(*runs->merge_all(running).front());
  }
  // The same by branches; none where there are none.
  Lines rest_by_branches() {
    RunningMerges running;
    auto merges = runs->merge_branches(running);
    branches = merges.size();
    if (merges.empty()) return {};
    MergeTree tree(std::move(merges), *pool, order_);
    return all_of(tree);
  }

  std::stop_source stop;
  LinePlan plan;
  std::optional<BlockPool> pool;
  std::optional<SortWatch> watch;
  std::optional<LineRuns> runs;
  std::optional<detail::ThreadTeam> team;
  std::vector<std::uint64_t> told;  // of the bytes merged
  std::size_t branches = 0;         // of the last merge

 private:
  template <typename Merge>
  Lines all_of(Merge& merge) {
    Lines lines;
    guarded([&] { merge.start(); }).throw_if_failed();
    FirstOfCursor<Merge> first(merge, plan.first_records);
    for_each_record(
        first,
        [&](const auto& each) {
          lines.insert(lines.end(), each.count(), std::string(each.stored().record));
        },
        [&](std::uint64_t) { watch->expect_going(); });
    return lines;
  }
  void form(const Lines& of_run) {
    std::uint64_t most = 0;
    for (const std::string& line : of_run) most += 2 * line.size() + 60;
    runs->form(most, [&](LineRunWriter& run) {
      guarded([&] {
        std::string before, key;
        for (auto line = of_run.begin(); line != of_run.end();) {
          const StoredRecord record = stored(*line, key);
          const bool first = line == of_run.begin();
          std::string key_before;
          const std::uint64_t known =
              first ? 0 : difference(stored(before, key_before), record, order_, 0).chunk;
          std::uint64_t count = 1;
          const auto begin = line++;
          // Where equal records are counted, they are the same.
          for (; order_.counted && line != of_run.end() && *line == *begin; ++line) ++count;
          run.append(record, known, count);
          longest_ = std::max(longest_, stored_bytes(record.key, record.record, order_.has_keys));
          before = *begin;
        }
      }).throw_if_failed();
      blocks_ += (run.bytes() + plan.block_bytes - 1) / plan.block_bytes;
    });
  }
  StoredRecord stored(const std::string& line, std::string& key) const {
    if (!order_.has_keys) return {line, line};
    KeyBatch keys;
    const std::string_view record = line;
    line_order_.keys->append({&record, 1}, keys);
    key = keys.key(0);
    return {key, line};
  }
  void note(const SortProgress& now) {
    if (now.phase != SortPhase::kMerging) return;
    told.push_back(now.bytes);
    if (told.size() > 1) return;
    plan.pool_blocks = pool_blocks_;
    if (merging_) merging_();
  }

  const LineOrder line_order_;
  const StoredOrder order_;
  std::size_t pool_blocks_ = 0;
  std::uint64_t longest_ = 0;
  std::uint64_t blocks_ = 0;
  const std::function<void()> merging_;
};

class MergesToRuns : public LineFolder {
 protected:
  MergesToRuns() { options.resources.compression = RunCompression::kNever; }
};

// Each thread merges a part to a part of the run, about as long as the others.
TEST_F(MergesToRuns, AreAPartForEachThread) {
  std::mt19937_64 random;  // always the same, so that parts are always about equal
  for (const unsigned threads : kThreads) {
    if (kShadowMemory && threads > 16) continue;
    Lines lines;
    const std::size_t count = std::max<std::size_t>(20'000, std::size_t{5500} * threads);
    while (lines.size() < count) lines.push_back(std::to_string(random()) + std::string(100, '.'));
    SCOPED_TRACE(threads);
    const auto keys = std::make_shared<CountedKeys>(threads);
    options.order.keys = keys;
    RunsOfLines of(options, 64 * kMiB, threads,
                   sort_disks(Backend::kThreads, std::make_shared<FirstRead>(*keys)));
    of.form(lines, 3, 0, random);
    of.reduce(2);
    ASSERT_EQ(of.runs->size(), 2u);
    const std::vector<std::uint64_t> compared = keys->of_threads();
    ASSERT_EQ(compared.size(), threads);
    // Of two of three runs, each record in turn.
    const std::uint64_t each = lines.size() * 2 / 3 / threads;
    for (const std::uint64_t records : compared) {
      EXPECT_GT(records, each / 2);
      EXPECT_LT(records, each * 3 / 2);
    }
    ASSERT_TRUE(of.rest() == sorted(lines, {}));
  }
}

TEST_F(MergesToRuns, GiveWhatAStableSortGives) {
  auto random = test_random();
  std::uint64_t in_parts = 0, unique = 0, first = 0, counted = 0, packed = 0;
  for (int round = 0; round < (kShadowMemory ? 16 : 24); ++round) {
    const LineKind kind = kAllLineKinds[static_cast<std::size_t>(round) % std::size(kAllLineKinds)];
    constexpr std::size_t kLongest[] = {3, 40, 200, 1000, 6000};
    const std::size_t longest = kLongest[random() % std::size(kLongest)];
    // Each kind of order, each way of storing runs and one thread are there whatever the seed is;
    // each kind of lines meets another order each time.
    const int which = (round + round / static_cast<int>(std::size(kAllLineKinds))) % 4;
    options.order = which == 0 ? random_order(random, false) : random_order(random);
    if (which == 0) options.order.unique = false, options.order.ties = Ties::kRecordBytes;
    if (which == 1) options.order.unique = true;
    options.resources.compression =
        round % 3 == 1 ? RunCompression::kAlways : RunCompression::kNever;
    const Lines lines = make_lines(kind, 1 + 1'200'000 / (longest / 2 + 12), longest, random);
    options.resources.first_records = round % 5 == 2 ? 1 + random() % lines.size() : 0;
    const unsigned threads =
        round % 7 == 6 ? kThreads[0] : kThreads[1 + random() % (std::size(kThreads) - 1)];
    const std::size_t count = 3 + random() % 9;
    const std::uint64_t left = 2 + random() % (count - 2);
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ", kind " << static_cast<int>(kind) << ", longest "
                 << longest << ", threads " << threads << ", runs " << count << " to " << left);
    Lines expected = sorted(lines, options.order);
    const std::uint64_t wanted = options.resources.first_records;
    if (wanted != 0) expected.resize(std::min<std::size_t>(expected.size(), wanted));
    std::uint64_t guaranteed = 0;
    RunsOfLines of(options, 16 * kMiB, threads, sort_disks(Backend::kThreads));
    of.form(lines, count, lines.size() / count / 4, random);
    guaranteed = of.pool->statistics().blocks_guaranteed;
    of.reduce(left);
    EXPECT_LE(of.runs->size(), left);
    EXPECT_EQ(of.pool->statistics().blocks_guaranteed, guaranteed);
    Lines found = of.rest();
    // Sorts drop equal records again when they write.
    ASSERT_TRUE(found == expected);
    if (threads == 1) continue;
    ++in_parts;
    unique += options.order.unique ? 1 : 0;
    first += wanted != 0 ? 1 : 0;
    counted += StoredOrder(options.order).counted ? 1 : 0;
    packed += options.resources.compression == RunCompression::kAlways ? 1 : 0;
  }
  for (const std::uint64_t kinds : {in_parts, unique, first, counted, packed}) EXPECT_GT(kinds, 0u);
}

// What a part begins with has much more in common with what was merged last before it than with
// most of what was: the digits of a counter, a chunk of the order each, which the runs share out.
TEST_F(MergesToRuns, MeetWhereNeighboursHaveMuchInCommon) {
  auto random = test_random();
  constexpr std::size_t kCount = 60'000, kRuns = 3;
  Lines lines;
  for (std::size_t run = 0; run < kRuns; ++run) {
    for (std::size_t i = run; i < kCount; i += kRuns) {
      std::string line;
      for (const char digit : std::to_string(1'000'000 + i)) line.append(8, digit);
      lines.push_back(std::move(line));
    }
  }
  const Lines expected = sorted(lines, {});
  for (const unsigned threads : kThreads) {
    RunsOfLines of(options, 16 * kMiB, threads, sort_disks(Backend::kThreads));
    of.form(lines, kRuns, 0, random);
    of.reduce(2);
    EXPECT_TRUE(of.rest() == expected) << threads;
  }
}

// An error of any request ends all parts, and what they have taken is given back; so does a stop.
TEST_F(MergesToRuns, EndTogetherWhenOneFails) {
  auto random = test_random();
  const Lines lines = make_lines(LineKind::kFields, 30'000, 100, random);
  for (const unsigned threads : {1U, 2U, 7U, 16U}) {
    SCOPED_TRACE(threads);
    const auto all = counted();
    std::uint64_t formed = 0;
    {
      RunsOfLines of(options, 8 * kMiB, threads, sort_disks(Backend::kThreads, all),
                     [&] { formed = all->attempts(); });
      of.form(lines, 5, 0, random);
      of.reduce(2);
    }
    ASSERT_GT(all->attempts(), formed + 50);
    for (int i = 0; i < 8; ++i) {
      const bool stops = i % 4 == 3;
      const std::uint64_t at = random() % ((all->attempts() - formed) * 9 / 10);
      SCOPED_TRACE(at);
      RunsOfLines* stopped = nullptr;
      const auto error = std::make_shared<LaterError>(at, EIO);
      const auto merging = [&] { stops ? void(stopped->stop.request_stop()) : error->begin(); };
      RunsOfLines of(options, 8 * kMiB, threads, sort_disks(Backend::kThreads, error), merging);
      stopped = &of;
      of.form(lines, 5, 0, random);
      const std::uint64_t guaranteed = of.pool->statistics().blocks_guaranteed;
      EXPECT_EQ(error_of([&] { of.reduce(2); }), stops ? ECANCELED : EIO);
      EXPECT_EQ(of.pool->statistics().blocks_guaranteed, guaranteed);
    }
  }
}

// Each branch merges about as many of the runs, in a thread of its own, and the caller merges what
// they give.
TEST_F(MergesToRuns, ThatComeInOrderHaveBranches) {
  std::mt19937_64 random;  // always the same, so that runs are about equal
  Lines lines;
  while (lines.size() < 40'000) lines.push_back(std::to_string(random()) + std::string(100, '.'));
  for (const unsigned threads : kThreads) {
    SCOPED_TRACE(threads);
    const std::size_t expected = threads < 3 ? 0 : std::min(threads - 1, MergeTree::kMostBranches);
    const auto keys = std::make_shared<CountedKeys>(expected);
    options.order.keys = keys;
    RunsOfLines of(options, 64 * kMiB, threads,
                   sort_disks(Backend::kThreads, std::make_shared<FirstRead>(*keys)));
    of.form(lines, 12, 0, random);
    const Lines found = of.rest_by_branches();
    ASSERT_EQ(of.branches, expected);
    if (expected == 0) continue;
    ASSERT_TRUE(found == sorted(lines, {}));
    const std::vector<std::uint64_t> compared = keys->of_threads();
    ASSERT_EQ(compared.size(), expected + 1);
    for (const std::uint64_t records : compared) EXPECT_GT(records, lines.size() / expected / 2);
  }
}

TEST_F(MergesToRuns, GiveTheSameByBranches) {
  auto random = test_random();
  std::uint64_t by_branches = 0, unique = 0, in_order = 0, counted = 0, first = 0;
  for (int round = 0; round < (kShadowMemory ? 16 : 32); ++round) {
    const LineKind kind = kAllLineKinds[static_cast<std::size_t>(round) % std::size(kAllLineKinds)];
    constexpr std::size_t kLongest[] = {3, 40, 200, 1000, 15'000};
    const int which = (round + round / static_cast<int>(std::size(kAllLineKinds))) % 4;
    // Of the longest and the shortest there may be no branches.
    const std::size_t longest =
        which == 3 ? kLongest[random() % std::size(kLongest)] : kLongest[1 + random() % 3];
    options.order = which == 0 ? random_order(random, false) : random_order(random);
    while (which == 2 && !options.order.keys) options.order = random_order(random);
    if (which == 0) options.order.unique = false, options.order.ties = Ties::kRecordBytes;
    if (which == 1) options.order.unique = true;
    if (which == 2) options.order.unique = false, options.order.ties = Ties::kInputOrder;
    const Lines lines = make_lines(kind, 1 + 1'200'000 / (longest / 2 + 12), longest, random);
    options.resources.first_records = round % 5 == 2 ? 1 + random() % lines.size() : 0;
    const unsigned threads = kThreads[2 + random() % (std::size(kThreads) - 2)];
    const std::size_t count = 4 + random() % 12;
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ", kind " << static_cast<int>(kind) << ", longest "
                 << longest << ", threads " << threads << ", runs " << count);
    Lines expected = sorted(lines, options.order);
    const std::uint64_t wanted = options.resources.first_records;
    if (wanted != 0) expected.resize(std::min<std::size_t>(expected.size(), wanted));
    RunsOfLines of(options, 32 * kMiB, threads, sort_disks(Backend::kThreads));
    of.form(lines, count, lines.size() / count / 4, random);
    const std::uint64_t guaranteed = of.pool->statistics().blocks_guaranteed;
    const Lines found = of.rest_by_branches();
    EXPECT_EQ(of.pool->statistics().blocks_guaranteed, guaranteed);
    if (of.branches == 0) continue;
    ASSERT_TRUE(found == expected);
    ++by_branches;
    unique += options.order.unique ? 1 : 0;
    in_order += StoredOrder(options.order).input_decides ? 1 : 0;
    counted += StoredOrder(options.order).counted ? 1 : 0;
    first += wanted != 0 ? 1 : 0;
  }
  for (const std::uint64_t kinds : {by_branches, unique, in_order, counted, first}) {
    EXPECT_GT(kinds, 0u);
  }
}

// An error that a branch meets, or a stop, ends the merge, and what it has taken is given back.
TEST_F(MergesToRuns, EndWhenABranchFails) {
  auto random = test_random();
  const Lines lines = make_lines(LineKind::kFields, 30'000, 100, random);
  for (const unsigned threads : {3U, 7U}) {
    SCOPED_TRACE(threads);
    const auto all = counted();
    std::uint64_t formed = 0;
    {
      RunsOfLines of(options, 8 * kMiB, threads, sort_disks(Backend::kThreads, all));
      of.form(lines, 9, 0, random);
      formed = all->attempts();
      of.rest_by_branches();
      ASSERT_GT(of.branches, 1u);
    }
    ASSERT_GT(all->attempts(), formed + 9);
    for (int i = 0; i < 8; ++i) {
      const bool stops = i % 4 == 3;
      const std::uint64_t at = random() % (all->attempts() - formed);
      SCOPED_TRACE(at);
      const auto error = std::make_shared<LaterError>(at, EIO);
      RunsOfLines of(options, 8 * kMiB, threads, sort_disks(Backend::kThreads, error));
      of.form(lines, 9, 0, random);
      const std::uint64_t guaranteed = of.pool->statistics().blocks_guaranteed;
      stops ? void(of.stop.request_stop()) : error->begin();
      EXPECT_EQ(error_of([&] { of.rest_by_branches(); }), stops ? ECANCELED : EIO);
      EXPECT_EQ(of.pool->statistics().blocks_guaranteed, guaranteed);
    }
  }
}

// What threads beside the caller have merged is told once.
TEST_F(MergesToRuns, TellHowFarTheyAre) {
  auto random = test_random();
  Lines lines;
  while (lines.size() < 400'000) lines.push_back(std::to_string(random() | std::uint64_t{1} << 63));
  RunsOfLines of(options, 8 * kMiB, 7, sort_disks(Backend::kThreads));
  of.form(lines, 3, 0, random);
  of.reduce(2);
  ASSERT_GE(of.told.size(), 2u);
  EXPECT_TRUE(std::ranges::is_sorted(of.told));
  // Two of three runs, of 21 bytes a line.
  EXPECT_GT(of.told.back(), lines.size() * 21 / 2);
  EXPECT_LT(of.told.back(), lines.size() * 21 * 3 / 4);
}

// Of a sort: the plan has memory for several threads where as many runs as it can merge are hardly
// too few.
TEST_F(MergesToRuns, OfSorts) {
  auto random = test_random();
  options.resources.block_bytes = kMinBlockBytes;
  const Lines lines = make_lines(LineKind::kFields, 200'000, 100, random);
  put_input(lines);
  const Lines by_line = sorted(lines, options.order);
  const auto keys = std::make_shared<KeysBehindComma>();
  const Lines by_key = sorted(lines, {.keys = keys});
  for (const unsigned threads : kThreads) {
    SCOPED_TRACE(threads);
    options.resources.threads = threads;
    const bool has_keys = random() % 2 == 0;
    options.order.keys = has_keys ? keys : nullptr;
    const SortReport report = expect_output(has_keys ? by_key : by_line);
    // With one thread a run is as long as two with more.
    EXPECT_EQ(report.passes, threads == 1 ? 1u : 2u);
    EXPECT_EQ(report.runs > report.plan.merge_order, threads > 1);
  }
}

// Of as many runs as leave the last merge too few blocks for two threads so few are left that
// several have a part of it.
TEST_F(MergesToRuns, LeaveTheLastMergeToAllThreads) {
  std::mt19937_64 random;  // always the same, so that there are always as many parts
  Lines lines;
  for (int i = 0; i < 1'100'000; ++i) lines.push_back(std::to_string(random() % 100'000'000));
  put_input(lines);
  const Lines expected = sorted(lines, {});
  options.resources.block_bytes = std::size_t{16} << 10;
  options.resources.threads = 1;
  EXPECT_EQ(expect_output(expected).merge_parts, 1u);
  for (const unsigned threads : {2U, 7U, 16U}) {
    if (kShadowMemory && threads > 2) continue;
    SCOPED_TRACE(threads);
    options.resources.threads = threads;
    options.order = {};
    use(counted());
    const SortReport report = expect_output(expected);
    ASSERT_GE(report.merge_parts, 2u);
    EXPECT_GT(report.runs, 2 * report.plan.merge_order);
    EXPECT_EQ(report.passes, 2u);
    const auto keys = std::make_shared<CountedKeys>(report.merge_parts);
    const auto first_read = std::make_shared<FirstRead>(*keys, true);
    options.order.keys = keys;
    use(first_read);
    options.resources.progress = [&](const SortProgress& now) {
      if (now.phase == SortPhase::kWriting) first_read->last_begins();
    };
    expect_output(expected);
    options.resources.progress = {};
    EXPECT_EQ(keys->of_threads().size(), report.merge_parts);
  }
}

// Where places in the output are not known, the last merge has branches.
TEST_F(MergesToRuns, LeaveUniqueLinesAndPipesToBranches) {
  auto random = test_random();
  Lines lines;
  for (int i = 0; i < 400'000; ++i) lines.push_back(std::to_string(random() % 100'000'000));
  put_input(lines);
  options.resources.memory_bytes = 2 * kMiB;
  options.resources.block_bytes = kMinBlockBytes;
  options.resources.threads = 4;
  for (const bool unique : {true, false}) {
    const auto keys = std::make_shared<CountedKeys>(3);
    const auto first_read = std::make_shared<FirstRead>(*keys, true);
    options.order.unique = unique;
    const Lines expected = sorted(lines, options.order);
    options.order.keys = keys;
    use(first_read);
    options.resources.progress = [&](const SortProgress& now) {
      if (now.phase == SortPhase::kWriting) first_read->last_begins();
    };
    std::string found;
    std::optional<std::jthread> reader;
    std::optional<std::fstream> writer;  // so that it does not wait for one
    if (!unique) {
      options.output = folder.file("pipe");
      ASSERT_EQ(mkfifo(options.output.c_str(), 0600), 0);
      writer.emplace(options.output);
      reader.emplace([&] {
        std::ifstream pipe(options.output, std::ios::binary);
        found.assign(std::istreambuf_iterator<char>(pipe), {});
      });
    }
    EXPECT_GE(sort_lines(options).runs, 6u);
    writer.reset();
    reader.reset();
    if (unique) found = file_text(options.output);
    EXPECT_TRUE(found == joined(expected));
    EXPECT_EQ(keys->of_threads().size(), 4u);
    options.order.keys = nullptr;
  }
}

// Blocks of rooms and buffers, and of the one writer, are in the pool.
TEST(MergesToRunsPlan, HasBranchesInTheMemory) {
  auto random = test_random();
  unsigned many = 0;
  for (int round = 0; round < 3000; ++round) {
    SortResources resources;
    resources.memory_bytes = kMiB << random() % 12;
    resources.threads = kThreads[random() % std::size(kThreads)];
    if (random() % 2 == 0) resources.block_bytes = kMinBlockBytes << random() % 7;
    LinePlan plan;
    if (error_of([&] { plan = plan_lines(resources, random() % (64 * kMiB) << random() % 12); })) {
      continue;
    }
    const LineMergeSize all{.runs = 2 + random() % (1 + plan.most_runs(0)),
                            .longest = random() % (std::uint64_t{200} << 10),
                            .blocks = random() % 100'000};
    if (all.runs > plan.most_runs(all.longest, all.blocks)) continue;
    if (random() % 2 == 0) plan.kept_bytes = random() % (plan.memory_bytes / 4);
    const unsigned branches = plan.branches_at_once(all, ~std::uint64_t{0});
    if (branches < 2) continue;
    ++many;
    EXPECT_LT(plan.branches_at_once(all, (branches - 1) * plan.least_part_bytes()), branches);
    ASSERT_LT(branches, plan.threads);
    LineMergeSize size = all;
    size.goal = LineMergeSize::Goal::kBranch;
    std::uint64_t blocks = plan.writing_blocks();
    for (unsigned i = 0; i < branches; ++i) {
      size.runs = all.runs * (i + 1) / branches - all.runs * i / branches;
      ASSERT_GE(size.runs, 2u);
      const LinePrefetch prefetch = plan.prefetch_of(size, branches);
      ASSERT_GE(prefetch.options.buffers, size.runs);
      blocks += prefetch.options.buffers + MergeTree::blocks_of_branch(plan.block_bytes);
    }
    ASSERT_LE(blocks * plan.block_bytes + all.blocks * 64 + plan.kept_bytes,
              plan.pool_blocks * plan.block_bytes);
  }
  EXPECT_GT(many, 200u);
}

// Blocks of buffers, writers and ends, and packers beyond those of the threads, are in the pool.
TEST(MergesToRunsPlan, TakesNoMoreThanTheMemory) {
  auto random = test_random();
  unsigned several = 0;
  for (int round = 0; round < 3000; ++round) {
    SortResources resources;
    resources.memory_bytes = kMiB << random() % 12;
    resources.threads = kThreads[random() % std::size(kThreads)];
    if (random() % 2 == 0) resources.block_bytes = kMinBlockBytes << random() % 7;
    resources.compression = random() % 2 == 0 ? RunCompression::kNever : RunCompression::kAlways;
    LinePlan plan;
    if (error_of([&] { plan = plan_lines(resources, random() % (64 * kMiB) << random() % 12); })) {
      continue;
    }
    LineMergeSize size{.runs = 2 + random() % (1 + plan.most_runs(0)),
                       .longest = random() % (std::uint64_t{70} << 10),
                       .blocks = random() % 100'000,
                       .goal = LineMergeSize::Goal::kRun};
    if (size.runs > plan.most_runs(size.longest, size.blocks)) continue;
    const unsigned merges = plan.merges_at_once(size);
    ASSERT_GE(merges, 1u);
    ASSERT_LE(merges, std::max(plan.threads, 1u));
    if (merges == 1) continue;
    ++several;
    const std::uint64_t each = plan.prefetch_of(size, merges).options.buffers +
                               LineRunWriter::blocks_needed(plan.write_behind_of_merge(merges)) +
                               2;  // the first record and the last
    const std::uint64_t packers = plan.compression == RunCompression::kNever ? 0
                                  : 2 * merges > plan.threads ? 2 * merges - plan.threads
                                                              : 0;
    ASSERT_LE(merges * each * plan.block_bytes +
                  packers * BlockPacker::memory_bytes(plan.block_bytes) + size.blocks * 64,
              plan.pool_blocks * plan.block_bytes)
        << merges;
    ASSERT_LE(size.longest, plan.block_bytes);
  }
  EXPECT_GT(several, 100U);
}

// Until so few are left, neighbours become one: never more than `order` of them.
unsigned passes_of(std::uint64_t runs, std::uint64_t left, std::uint64_t order) {
  unsigned passes = 0;
  for (; runs > left; ++passes) runs = std::max((runs + order - 1) / order, left);
  return passes;
}

TEST(MergesToRunsPlan, TakesNoMorePassesForMoreThreads) {
  auto random = test_random();
  unsigned shrunk = 0;
  for (int round = 0; round < 3000; ++round) {
    SortResources resources;
    resources.memory_bytes = kMiB << random() % 8;
    resources.threads = kThreads[random() % std::size(kThreads)];
    resources.block_bytes = kMinBlockBytes << random() % 4;
    LinePlan plan;
    if (error_of([&] { plan = plan_lines(resources, 64 * kMiB << random() % 8); })) continue;
    const std::uint64_t most = plan.most_runs(100, 1000);
    if (most < 2) continue;
    const LineMergeSize all{
        .runs = most + 1 + random() % (most << random() % 8), .longest = 100, .blocks = 1000};
    const std::uint64_t order = plan.pass_order(all, most);
    ASSERT_GE(order, 2u);
    ASSERT_LE(order, most);
    ASSERT_EQ(passes_of(all.runs, most, order), passes_of(all.runs, most, most))
        << all.runs << " runs, " << most << ", " << order << ", " << plan.threads;
    shrunk += order < most ? 1 : 0;
    if (plan.threads == 1) {
      ASSERT_EQ(order, most);
    }
  }
  EXPECT_GT(shrunk, 100u);
}

// Runs merged until so few are left, as often as they are: the first pass merges no more than it
// must.
std::uint64_t merged_until(std::uint64_t runs, std::uint64_t left, std::uint64_t order) {
  if (runs <= left) return 0;
  std::uint64_t reach = left, passes = 1;
  for (; reach * order < runs; ++passes) reach *= order;
  const std::uint64_t fewer = runs - reach;
  return fewer + (fewer + order - 2) / (order - 1) + (passes - 1) * runs;
}

// What is merged before, and would not have to be, is half of what that saves the last merge at
// most: of a part less than of a whole one.
TEST(MergesToRunsPlan, LeavesFewWhereThatCostsLittle) {
  auto random = test_random();
  unsigned fewer = 0, merged = 0;
  for (int round = 0; round < 5000; ++round) {
    SortResources resources;
    resources.memory_bytes = kMiB << random() % 8;
    resources.threads = kThreads[random() % std::size(kThreads)];
    resources.block_bytes = kMinBlockBytes << random() % 4;
    if (random() % 8 == 0) resources.request_cost_bytes = 8 * kMiB;
    LinePlan plan;
    if (error_of([&] { plan = plan_lines(resources, 64 * kMiB << random() % 8); })) continue;
    LineMergeSize size{.longest = random() % 8 == 0 ? 8192 * (1 + random() % 16) : 100,
                       .blocks = random() % 10'000};
    const std::uint64_t largest = plan.most_runs(size.longest, size.blocks);
    if (largest < 2) continue;
    size.runs = 1 + random() % (largest << random() % 6);
    const std::uint64_t most = random() % 4 == 0 ? 2 + random() % (largest - 1) : largest;
    const unsigned parts = 1 + static_cast<unsigned>(random() % plan.threads);
    const std::uint64_t left = plan.runs_to_leave(size, most, parts);
    SCOPED_TRACE(::testing::Message() << size.runs << " runs, at most " << most << " of " << largest
                                      << ", left " << left << ", parts " << parts);
    ASSERT_GE(left, std::min<std::uint64_t>(most, 2));
    ASSERT_LE(left, most);
    const auto threads_for = [&](std::uint64_t runs) {
      LineMergeSize last = size;
      last.runs = std::min(size.runs, runs);
      // Merged runs may have a few blocks more.
      if (runs < size.runs) last.blocks += last.blocks / 16 + plan.threads;
      return std::min(plan.merges_at_once(last), parts);
    };
    const bool in_one = parts == 1 || size.longest > (64U << 10);
    if (in_one || resources.request_cost_bytes) {
      ASSERT_EQ(left, most);
      continue;
    }
    const double before = threads_for(most), now = threads_for(left);
    const auto more = static_cast<double>(merged_until(size.runs, left, largest) -
                                          merged_until(size.runs, most, largest));
    ASSERT_GE(now, before);
    ASSERT_LE(more, static_cast<double>(size.runs) * (1 / before - 1 / now) / 2 + 1e-6);
    merged += more > 0 ? 1 : 0;
    fewer += left < most ? 1 : 0;
  }
  EXPECT_GT(fewer, 200u);
  EXPECT_GT(merged, 50u);
}

}}  // namespace vortex::test::merges_to_runs_test
