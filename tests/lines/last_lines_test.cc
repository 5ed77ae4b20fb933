// The lines that come last, which stay in memory where there is room, and are merged from there.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "lines/job/line_plan.h"
#include "lines/memory/line_arena.h"
#include "study/fault_plan.h"
#include "tests/lines/line_folder.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/random_seed.h"
#include "tests/support/sanitizers.h"
#include "vortex/line_sort.h"
#include "vortex/memory_budget.h"

namespace vortex::test::last_lines_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kLineBytes = 60;

class LastLines : public LineFolder {
 protected:
  LastLines() {
    options.resources.memory_bytes = 8 * kMiB;
    options.resources.block_bytes = std::size_t{16} << 10;
    options.resources.compression = RunCompression::kNever;
  }
  // Distinct ones, as many as fill the memory so many tenths of a time.
  Lines filling(unsigned tenths, std::mt19937_64& random) const {
    const LinePlan plan = plan_lines(options.resources, 2 * options.resources.memory_bytes);
    const std::size_t count =
        plan.arena_bytes / (kLineBytes + 1 + sizeof(IndexEntry)) * tenths / 10;
    Lines lines;
    for (std::size_t i = 0; i < count; ++i) {
      lines.push_back(std::to_string(random()) + "," + std::to_string(i));
      lines.back().resize(kLineBytes, '.');
    }
    return lines;
  }
};

// What has come after the last run was begun is neither written nor read, nor counted as a run.
TEST_F(LastLines, AreNotWritten) {
  auto random = test_random();
  for (const unsigned threads : {1U, 2U, 7U}) {
    SCOPED_TRACE(threads);
    options.resources.threads = threads;
    const Lines lines = filling(14, random);
    put_input(lines);
    const SortReport report = expect_output(sorted(lines, {}));
    const std::uint64_t written = report.run_bytes;
    EXPECT_GE(report.runs, 1U);
    EXPECT_LE(report.runs, 2U);  // of half the memory
    EXPECT_GT(report.plan.kept_bytes, report.input_bytes / 16);
    EXPECT_LT(report.plan.kept_bytes + written, report.input_bytes * 11 / 10);
    EXPECT_GT(report.plan.kept_bytes + written, report.input_bytes);
    EXPECT_LT(report.written_bytes, report.output_bytes + written + 4 * report.plan.block_bytes);
  }
}

// Where the memory is full of them, merging takes it; and others may want it who share it.
TEST_F(LastLines, AreWrittenWhereTheirMemoryIsWanted) {
  auto random = test_random();
  options.resources.threads = 1;
  const auto kept_of = [&](const Lines& lines) {
    put_input(lines);
    return expect_output(sorted(lines, {})).plan.kept_bytes;
  };
  EXPECT_EQ(kept_of(filling(19, random)), 0U);
  EXPECT_EQ(kept_of(filling(9, random)), 0U);             // and none is needed
  options.resources.block_bytes = std::size_t{64} << 10;  // of which merging needs all
  EXPECT_EQ(kept_of(filling(200, random)), 0U);
  const Lines lines = filling(14, random);
  EXPECT_GT(kept_of(lines), 0U);
  options.resources.budget = MemoryBudget::make(options.resources.memory_bytes);
  EXPECT_EQ(kept_of(lines), 0U);
}

// However the others are read: a policy is asked about those on the disks.
TEST_F(LastLines, StayBesideRunsOnManyDisks) {
  auto random = test_random();
  options.resources.threads = 1;
  for (const char* const name : {"a", "b", "c"}) {
    std::filesystem::create_directory(runs.file(name));
    options.resources.folders.push_back(runs.file(name));
  }
  options.resources.memory_bytes = 4 * kMiB;
  const Lines lines = filling(143, random);
  put_input(lines);
  const Lines expected = sorted(lines, {});
  for (const PrefetchKind kind : kAllPrefetchKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    options.resources.prefetch = kind;
    const SortReport report = expect_output(expected);
    EXPECT_GE(report.runs, 10U);
    EXPECT_GT(report.plan.kept_bytes, 0U);
  }
  for (const char* const name : {"a", "b", "c"}) {
    EXPECT_TRUE(std::filesystem::is_empty(runs.file(name)));
    std::filesystem::remove(runs.file(name));
  }
}

// Lines, keys, counts and first lines of all kinds, in one part and in several.
TEST_F(LastLines, GiveWhatAStableSortGives) {
  auto random = test_random();
  options.resources.memory_bytes = 4 * kMiB;
  unsigned kept = 0, in_parts = 0, first = 0, unique = 0, keyed = 0;
  const auto all_seen = [&] {
    return kept > 3 && in_parts > 0 && first > 0 && unique > 0 && keyed > 0;
  };
  const int rounds = long_tests() ? 1000 : kShadowMemory ? 10 : 24;
  for (int round = 0; round < rounds || (round < 20 * rounds && !all_seen()); ++round) {
    const LineKind kind = kAllLineKinds[random() % std::size(kAllLineKinds)];
    const std::size_t longest = 8 + random() % 300;
    const std::size_t bytes = 2 * kMiB + random() % (4 * kMiB);
    Lines lines = make_lines(kind, bytes / (longest / 2 + 20), longest, random);
    if (random() % 8 == 0) lines[random() % lines.size()].append(random() % 100'000, 'x');
    SortResources& resources = options.resources;
    options.order = random_order(random);
    resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    resources.first_records = random() % 4 == 0 ? 1 + random() % lines.size() : 0;
    resources.prefetch = kAllPrefetchKinds[random() % std::size(kAllPrefetchKinds)];
    resources.compression = random() % 4 == 0 ? RunCompression::kAlways : RunCompression::kNever;
    use(random() % 3 == 0 ? harmless_faults(random) : counted());
    SCOPED_TRACE("round " + std::to_string(round) + ", kind " +
                 std::to_string(static_cast<int>(kind)) + ", longest " + std::to_string(longest));
    Lines expected = sorted(lines, options.order);
    if (const std::uint64_t most = resources.first_records; most != 0) {
      expected.resize(std::min<std::size_t>(expected.size(), most));
    }
    put_input(lines);
    const SortReport report = expect_output(expected);
    if (HasFailure()) return;
    if (report.plan.kept_bytes == 0) continue;
    ++kept;
    in_parts += report.merge_parts > 1;
    first += resources.first_records != 0;
    unique += options.order.unique;
    keyed += options.order.keys != nullptr && report.merge_parts > 1;
  }
  EXPECT_TRUE(all_seen()) << kept << " kept, " << in_parts << " in parts, " << first << " first, "
                          << unique << " unique, " << keyed << " with keys";
}

// Branches have rooms for the longest line on the disks, which may be shorter than one in memory.
TEST_F(LastLines, MayBeLongerThanTheOthers) {
  auto random = test_random();
  options.resources.memory_bytes = 4 * kMiB;
  options.resources.threads = 4;
  options.resources.compression = RunCompression::kAlways;  // with which none is kept apart
  options.order.unique = true;
  unsigned kept = 0;
  for (unsigned tenths = 21; tenths < 40; tenths += 2) {
    Lines lines = filling(tenths, random);
    lines.back().append(16'300 + random() % 200, 'x');
    put_input(lines);
    const SortReport report = expect_output(sorted(lines, options.order));
    kept += report.plan.kept_bytes != 0 && report.runs >= 4 ? 1 : 0;
  }
  EXPECT_GT(kept, 0u);
}

TEST_F(LastLines, ThatArePushed) {
  auto random = test_random();
  for (const unsigned threads : {1U, 2U, 7U}) {
    options.resources.threads = threads;
    const Lines lines = filling(14, random);
    LineSorter sorter({}, options.resources);
    EXPECT_TRUE(pushed_through(sorter, lines) == sorted(lines, {}));
    EXPECT_GE(sorter.counts().runs, 1U);
    EXPECT_LE(sorter.counts().runs, 2U);
    EXPECT_LT(sorter.counts().bytes, lines.size() * (kLineBytes + 1) * 15 / 16);
    LineSorter unread({}, options.resources);
    for (const std::string& line : lines) unread.push(line);
    std::string_view record;
    EXPECT_TRUE(unread.next(record));
  }
}

TEST_F(LastLines, LeaveNothingWhereOthersFail) {
  auto random = test_random();
  const Lines lines = filling(14, random);
  put_input(lines);
  for (int round = 0; round < 8; ++round) {
    options.resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    const SortReport report =
        expect_whole_or_nothing(sorted(lines, {}), SortPhase::kWriting, random);
    EXPECT_GT(report.plan.kept_bytes, 0U);
  }
}

}}  // namespace vortex::test::last_lines_test
