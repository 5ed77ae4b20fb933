// The first lines of a sort, of files and of a sorter: the beginning of what std::stable_sort
// gives.
#include "lines/memory/first_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lines/memory/line_arena.h"
#include "tests/lines/line_folder.h"
#include "tests/support/cases.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/line_sort.h"
#include "vortex/memory_budget.h"

namespace vortex::test::first_lines_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Lines first_of(Lines lines, std::uint64_t most) {
  lines.resize(std::min<std::uint64_t>(lines.size(), most));
  return lines;
}

class FirstLinesOfFiles : public LineFolder {
 protected:
  FirstLinesOfFiles() { options.resources.block_bytes = 16 << 10; }

  SortReport expect_first(const Lines& lines, std::uint64_t most, const std::string& header = {}) {
    options.resources.first_records = most;
    SCOPED_TRACE("the first " + std::to_string(most) + " of " + std::to_string(lines.size()));
    return expect_output(first_of(sorted(lines, options.order), most), header);
  }
};

TEST_F(FirstLinesOfFiles, RandomSorts) {
  auto random = test_random();
  Seen seen({{"without runs"}, {"with runs"}});
  for (unsigned round = 0; seen.another(round, 16); ++round) {
    const LineKind kind = kAllLineKinds[round % std::size(kAllLineKinds)];
    constexpr std::size_t kLongest[] = {3, 40, 200, 5000, 90'000};
    const std::size_t longest = kLongest[random() % std::size(kLongest)];
    const Lines lines = make_lines(kind, 1 + 1'800'000 / (longest / 2 + 12), longest, random);
    options.order = random_order(random);
    options.resources.threads = kThreadCounts[random() % std::size(kThreadCounts)];
    options.framing =
        random() % 3 == 0 ? RecordFraming::length_prefixed() : RecordFraming::delimited();
    options.inputs.clear();
    const auto half = lines.begin() + static_cast<std::ptrdiff_t>(random() % (lines.size() + 1));
    options.inputs = {put("a", framed(Lines(lines.begin(), half), options.framing)),
                      put("b", framed(Lines(half, lines.end()), options.framing))};
    SCOPED_TRACE("round " + std::to_string(round) + ", longest " + std::to_string(longest));
    const std::uint64_t few = 1 + random() % 20;
    const SortReport report = expect_first(lines, few);
    EXPECT_EQ(report.records_in, lines.size());
    seen.note("without runs", report.runs == 0 && report.plan.arena_bytes != 0);
    const std::uint64_t all = lines.size();
    const std::uint64_t many[] = {all / 2 + 1, 1 + random() % all, all, all + 1};
    seen.note("with runs", expect_first(lines, many[random() % std::size(many)]).runs > 1);
  }
  seen.expect_all();
}

// Few pass without a run, in any order, and where each comes before all others.
TEST_F(FirstLinesOfFiles, FewReachNoDisk) {
  auto random = test_random();
  for (const bool descending : {false, true}) {
    options.order.descending = descending;
    Lines lines = make_lines(LineKind::kRandom, 100'000, 60, random);
    for (const bool shuffled : {true, false}) {
      if (!shuffled) std::sort(lines.begin(), lines.end(), std::greater<>());
      put_input(lines);
      for (const std::uint64_t most : {2, 100, 1000}) EXPECT_EQ(expect_first(lines, most).runs, 0U);
    }
    // Those that are wanted come first, but the last of them comes at the very end.
    for (const std::ptrdiff_t most : {2, 100, 1000}) {
      lines = sorted(lines, options.order);
      std::rotate(lines.begin() + most - 1, lines.begin() + most, lines.end());
      put_input(lines);
      EXPECT_EQ(expect_first(lines, static_cast<std::uint64_t>(most)).runs, 0U);
    }
  }
}

// The first ones take most of the memory, so that cutting frees little: they become a run.
TEST_F(FirstLinesOfFiles, ThatAreLongerThanTheOthers) {
  auto random = test_random();
  Lines lines;
  for (int i = 0; i < 40'000; ++i) {
    const std::string number = std::to_string(random());
    lines.push_back(i % 5 < 2 ? "the same, a" + number + std::string(300, 'a')
                              : "the same, b" + number);
  }
  put_input(lines);
  options.resources.memory_bytes = 64 * kMiB;
  for (const bool descending : {false, true}) {
    options.order.descending = descending;
    expect_first(lines, 9000);
  }
}

TEST_F(FirstLinesOfFiles, FromFewInputs) {
  options.header_records = 1;
  options.inputs = {put("a", "head\nb\na\n"), put("b", "other\nc\na\n")};
  expect_first({"b", "a", "c", "a"}, 3, "head\n");
  options.merge_inputs = true;
  options.inputs = {put("a", "head\na\nb\n"), put("b", "other\na\nc\n")};
  expect_first({"a", "b", "a", "c"}, 3, "head\n");
}

// Records that are kept apart count as others do, and those that stand for them.
TEST_F(FirstLinesOfFiles, AmongThemLongOnes) {
  auto random = test_random();
  Lines lines;
  for (int i = 0; i < 60'000; ++i) {
    std::string line = std::to_string(random() % 20'000) + ',' + std::to_string(random() % 300);
    if (i % 3000 == 1) line += std::string(80'000, 'x');
    if (i % 3000 == 2) line.insert(0, 80'000, 'x');
    lines.push_back(std::move(line));
  }
  put_input(lines);
  options.resources.memory_bytes = 2 * kMiB;
  for (const bool with_keys : {false, true}) {
    for (const Ties ties : {Ties::kInputOrder, Ties::kRecordBytes}) {
      options.order = {};
      if (with_keys) options.order.keys = std::make_shared<KeysBehindComma>();
      options.order.ties = ties;
      for (const std::uint64_t most : {1, 100, 20'000, 59'999}) expect_first(lines, most);
    }
  }
}

TEST_F(FirstLinesOfFiles, OfSortedInputs) {
  auto random = test_random();
  options.merge_inputs = true;
  for (const std::size_t inputs : {3, 40}) {
    for (const bool unique : {false, true}) {
      options.order.unique = unique;
      options.order.keys = std::make_shared<KeysBehindComma>();
      options.inputs.clear();
      Lines all;
      for (std::size_t i = 0; i < inputs; ++i) {
        add_input(sorted(make_lines(LineKind::kFields, 1000, 100, random), options.order), all);
      }
      for (const std::uint64_t most : {1, 100, 30'000}) {
        const SortReport report = expect_first(all, most);
        EXPECT_EQ(report.runs > 0, inputs == 40);
        EXPECT_GE(report.records_in, report.records_out);
        EXPECT_LE(report.records_in, most == 1 ? all.size() / 2 : all.size());
      }
    }
  }
}

TEST(FirstLinesOfASorter, AreThoseOfAStableSort) {
  auto random = test_random();
  const TemporaryFolder folder(fast_folder());
  for (const bool counted : {false, true}) {
    const Lines lines =
        make_lines(counted ? LineKind::kFewLines : LineKind::kFields, 40'000, 100, random);
    for (const std::uint64_t most : {1, 50, 15'000, 50'000}) {
      LineSorter sorter(
          {}, {.first_records = most, .memory_bytes = kMiB, .folders = {folder.path().string()}});
      EXPECT_EQ(pushed_through(sorter, lines), first_of(sorted(lines, {}), most));
      EXPECT_EQ(sorter.records(), lines.size());
    }
  }
}

// What nobody reads any more needs no folder when others want its memory.
TEST(FirstLinesOfASorter, AreNotSpilledAtTheEnd) {
  const auto budget = MemoryBudget::make(8 * kMiB);
  auto folder = std::make_unique<TemporaryFolder>(fast_folder());
  LineSorter sorter({}, {.first_records = 100,
                         .memory_bytes = budget->bytes(),
                         .budget = budget,
                         .folders = {folder->path().string()}});
  for (int i = 0; i < 12'000; ++i) sorter.push(std::to_string(i) + std::string(330, 'x'));
  std::string_view line;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(sorter.next(line));
  ASSERT_EQ(sorter.counts().runs, 0U);
  folder.reset();
  EXPECT_EQ(error_of([&] { budget->take(3 * kMiB, 8 * kMiB); }), 0);
  EXPECT_FALSE(sorter.next(line));
}

TEST(FirstLines, ALongBoundIsNotKept) {
  std::vector<char> memory(kMiB);
  const StoredOrder order{LineOrder{}};
  detail::ThreadTeam team(1);
  for (const std::size_t bytes : {1'000, 100'000}) {
    LineArena arena(memory, order);
    ASSERT_TRUE(arena.push({}, std::string(bytes, 'b')));
    arena.sort(team);
    FirstLines first(order, 1);
    first.note(arena, team);
    EXPECT_EQ(first.is_behind({}, "c"), bytes == 1'000);
  }
}

}}  // namespace vortex::test::first_lines_test
