// Sorts of lines, in memory and of files, against std::stable_sort.
#include "vortex/line_sort.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/lines/line_folder.h"
#include "tests/support/child_process.h"
#include "tests/support/random_seed.h"

namespace vortex::test::line_sort_test { namespace {

std::vector<LineOrder> all_orders() {
  std::vector<LineOrder> orders;
  const std::shared_ptr<const RecordKeys> all_keys[] = {
      nullptr, std::make_shared<KeysBehindComma>(), std::make_shared<KeysBehindComma>(0),
      std::make_shared<KeysBehindComma>(2)};
  for (const auto& keys : all_keys) {
    for (unsigned bits = 0; bits < 8; ++bits) {
      const Ties ties = (bits & 1) != 0 ? Ties::kInputOrder : Ties::kRecordBytes;
      orders.push_back({keys, (bits & 2) != 0, ties, (bits & 4) != 0});
    }
  }
  return orders;
}

TEST(LineSort, InMemoryEveryKindInEveryOrder) {
  auto random = test_random();
  for (const LineKind kind : kAllLineKinds) {
    for (const std::size_t count : {0, 1, 2, 40, 3000}) {
      const Lines lines = make_lines(kind, count, 1 + random() % 60, random);
      for (const LineOrder& order : all_orders()) {
        ASSERT_EQ(sorted_in_memory(lines, order, 1 + random() % 3), sorted(lines, order))
            << "kind " << static_cast<int>(kind) << ", " << count << " lines";
      }
    }
  }
}

// A few lines leave the prefix that all others have in common, or end within it.
TEST(LineSort, FewLeaveTheCommonPrefix) {
  auto random = test_random();
  constexpr std::size_t kPrefix = 60;
  for (const std::size_t count : {500, 60000}) {
    for (int round = 0; round < 8; ++round) {
      Lines lines;
      for (std::size_t i = 0; i < count; ++i) {
        lines.push_back(std::string(kPrefix, 'p') + std::to_string(random()));
      }
      for (std::size_t left = 1 + random() % 3; left > 0; --left) {
        std::string& line = lines[random() % count];
        const std::size_t at = 8 + random() % (kPrefix - 8);
        if (random() % 3 == 0) {
          line.resize(at);
        } else {
          line[at] = random() % 2 == 0 ? 'a' : 'z';
        }
      }
      const Lines found = sorted_in_memory(lines, {}, 1 + static_cast<unsigned>(round) % 2);
      std::sort(lines.begin(), lines.end());
      ASSERT_TRUE(found == lines) << count << " lines, round " << round;
    }
  }
}

// Records whose keys were shortened and are equal, a few of them too long for whole keys to be made
// of them: those are compared with all others.
TEST(LineSort, FewAreLong) {
  auto random = test_random();
  const auto some = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (const std::size_t count : {12, 300, 40000}) {
    Lines lines;
    for (std::size_t i = 0; i < count; ++i) {
      std::string line = std::to_string(some(20)) + ",k" + std::to_string(some(count));
      const std::size_t bytes = 65000 + some(2000);
      if (i % (count / 12) == 0) line = std::string(bytes, 'l') + line;
      if (i % (count / 6) == 1) line += std::string(bytes, '5');
      lines.push_back(some(8) == 0 && i > 0 ? lines[some(i)] : line);
    }
    for (const LineOrder& order : all_orders()) {
      if (order.keys == nullptr || !order.keys->shortened()) continue;
      if (count > 300 && some(4) != 0) continue;
      ASSERT_TRUE(sorted_in_memory(lines, order, 1 + random() % 3) == sorted(lines, order))
          << count << " lines";
    }
  }
}

class LineSortFiles : public LineFolder {};

TEST_F(LineSortFiles, SeveralInputsAndNoNewlineAtTheEnd) {
  options.inputs = {put("a", "pear\napple"), put("b", ""), put("c", "fig\n\n")};
  const SortReport report = expect_output({"", "apple", "fig", "pear"});
  EXPECT_EQ(report.records_in, 4u);
  EXPECT_EQ(report.runs, 0u);
}

TEST_F(LineSortFiles, HeadersOfTheFirstInputStay) {
  options.header_records = 1;
  options.inputs = {put("a", "name\nz\nb\n"), put("b", "name\na\n"), put("c", "name")};
  EXPECT_EQ(expect_output({"a", "b", "z"}, "name\n").records_in, 3u);
}

TEST_F(LineSortFiles, RecordsBehindTheirLength) {
  auto random = test_random();
  const Lines records = make_lines(LineKind::kRandom, 500, 300, random);
  options.framing = RecordFraming::length_prefixed();
  put_input(records);
  expect_output(sorted(records, {}));
}

TEST_F(LineSortFiles, TheOutputMayBeAnInput) {
  options.inputs = {put("out", "b\na\n")};
  expect_output({"a", "b"});
}

TEST_F(LineSortFiles, DataThatEndWithinARecord) {
  options.framing = RecordFraming::length_prefixed();
  options.inputs = {put("a", prefixed({"abc", "de"}).substr(0, 10))};
  expect_refused(EINVAL, {"offset 7"});
}

TEST_F(LineSortFiles, CheckFindsTheFirstDisorder) {
  options.inputs = {put("good", "a\nb\nb\n"), put("bad", "b\nd\nc\na\n")};
  const auto found = check_lines(options);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->input, folder.file("bad"));
  EXPECT_EQ(found->record, 3u);
  EXPECT_EQ(found->offset, 4u);
  EXPECT_EQ(found->text, "c");
  options.inputs.pop_back();
  EXPECT_FALSE(check_lines(options));
  options.order.unique = true;
  EXPECT_EQ(check_lines(options)->record, 3u);
  options.order = {.descending = true};
  EXPECT_EQ(check_lines(options)->record, 2u);

  // Keys that are equal as far as they are made.
  put("good", "x,aa\ny,ab\nz,ab\nx,aa\n");
  for (const bool shortened : {false, true}) {
    options.order = {.keys = std::make_shared<KeysBehindComma>(shortened ? 1 : 9),
                     .ties = Ties::kInputOrder};
    EXPECT_EQ(check_lines(options)->record, 4u);
    options.order.unique = true;
    EXPECT_EQ(check_lines(options)->record, 3u);
    options.order = {.keys = options.order.keys, .descending = true};
    EXPECT_EQ(check_lines(options)->record, 2u);
  }
}

// The threads of the sorter are not the child's: nothing waits for them.
TEST(LineSorter, IsDestroyedInAForkedChild) {
  SortResources resources;
  resources.memory_bytes = std::size_t{64} << 20;
  resources.threads = 2;
  std::optional<LineSorter> sorter(std::in_place, LineOrder{}, resources);
  const std::string line(1000, 'x');
  for (int child = 0; child < 20; ++child) {  // whatever the threads are at
    for (int i = 0; i < 1000; ++i) sorter->push(line + std::to_string(1000 * child + i));
    ASSERT_EQ(in_child([&] {
                alarm(60);
                sorter.reset();
                return 0;
              }),
              0);
  }
  std::string_view record;
  EXPECT_TRUE(sorter->next(record));
}

TEST(LineSorter, GivesBackWhatWasPushed) {
  auto random = test_random();
  const Lines lines = make_lines(LineKind::kFields, 2000, 30, random);
  LineOrder order;
  order.keys = std::make_shared<KeysBehindComma>();
  LineSorter sorter(order);
  EXPECT_EQ(pushed_through(sorter, lines), sorted(lines, order));
  EXPECT_EQ(sorter.records(), lines.size());
  EXPECT_EQ(error_of([&] { sorter.push("more"); }), EINVAL);
}

}  // namespace

}  // namespace vortex::test::line_sort_test
