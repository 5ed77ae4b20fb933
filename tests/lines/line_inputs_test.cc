// Inputs that change while they are sorted, and merges of more of them than memory has room for.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "tests/lines/line_folder.h"
#include "tests/support/error_of.h"
#include "tests/support/random_seed.h"
#include "vortex/line_sort.h"

namespace vortex::test::line_inputs_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// A record is its own key. Does something when the first records have been read.
class HookedKeys final : public RecordKeys {
 public:
  explicit HookedKeys(std::function<void()> hook) : hook_(std::move(hook)) {}

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    if (hook_) std::exchange(hook_, nullptr)();
    for (const std::string_view record : records) {
      keys.append(record);
      keys.end_key();
    }
  }

 private:
  mutable std::function<void()> hook_;
};

// How an input is read depends on its length and on what is done with it.
struct Reading {
  const char* name;
  std::size_t lines;
  bool merge;
  std::uint64_t memory_bytes;
};
constexpr Reading kReadings[] = {
    {"SortOfFewLines", 3, false, 8 * kMiB},        {"SortOfSomeLines", 20000, false, 8 * kMiB},
    {"SortOfManyLines", 200000, false, 16 * kMiB}, {"SortInRuns", 200000, false, 2 * kMiB},
    {"MergeOfFewLines", 3, true, 8 * kMiB},        {"MergeOfSomeLines", 20000, true, 8 * kMiB},
    {"MergeOfManyLines", 200000, true, 16 * kMiB}, {"MergeInLittleMemory", 200000, true, 2 * kMiB},
};

class ChangingInput : public LineFolder, public ::testing::WithParamInterface<Reading> {
 protected:
  ChangingInput() {
    for (std::size_t i = 0; i < GetParam().lines; ++i) lines.push_back("line " + number(i));
    put_input(lines);
    options.merge_inputs = GetParam().merge;
    options.resources.memory_bytes = GetParam().memory_bytes;
    options.resources.block_bytes = std::size_t{16} << 10;
  }
  // They come in the order of their bytes.
  static std::string number(std::size_t i) { return std::to_string(1000000 + i); }

  void when_reading(std::function<void()> hook) {
    options.order.keys = std::make_shared<HookedKeys>(std::move(hook));
  }
  void append(const Lines& more) {
    std::ofstream(path, std::ios::binary | std::ios::app) << joined(more);
  }

  const std::string path = folder.file("in");
  Lines lines;
};

INSTANTIATE_TEST_SUITE_P(, ChangingInput, ::testing::ValuesIn(kReadings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ChangingInput, IsReadToItsNewEnd) {
  Lines more;
  for (std::size_t i = 0; i < 100; ++i) more.push_back("more " + number(i));
  when_reading([&] { append(more); });
  // Once what was there has been read, so that a merge gives what is sorted.
  lines.insert(lines.end(), more.begin(), more.end());
  if (GetParam().lines == 3) {
    // Too few for anything to be read later than the first of them.
    const Lines before(lines.begin(), lines.begin() + 3);
    sort_lines(options);
    const std::string found = file_text(options.output);
    EXPECT_TRUE(found == joined(before) || found == joined(lines));
    return;
  }
  expect_output(sorted(lines, {}));
}

TEST_P(ChangingInput, MayEndWithinALineThatGoesOn) {
  put_file_text(path, joined(lines) + "the li");
  when_reading(
      [&] { std::ofstream(path, std::ios::binary | std::ios::app) << "ne\nthen another"; });
  lines.push_back(GetParam().lines == 3 ? "the li" : "the line");
  if (GetParam().lines > 3) lines.push_back("then another");
  expect_output(sorted(lines, {}));
}

TEST_P(ChangingInput, MayBeTouched) {
  when_reading([&] {
    const timespec times[2] = {{1, 0}, {1, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  });
  expect_output(sorted(lines, {}));
}

TEST_P(ChangingInput, MustNotBecomeShorter) {
  if (GetParam().lines == 3) return;  // they have been read by then
  const std::uint64_t bytes = joined(lines).size();
  when_reading([&] { std::filesystem::resize_file(path, bytes - 1000); });
  expect_refused(ENODATA, {"'" + path + "' ends at byte " + std::to_string(bytes - 1000),
                           "was " + std::to_string(bytes) + " long"});
  EXPECT_EQ(folder.entries(), 1u);
}

class SeveralInputs : public LineFolder {};

// Of a few bytes become more than the memory holds.
TEST_F(SeveralInputs, MayNeedRunsThatNobodyExpected) {
  Lines lines;
  for (std::size_t i = 0; i < 100000; ++i) lines.push_back(std::to_string(i * 7919 % 100000));
  // The first has been read when the second grows.
  options.inputs = {put("first", "first\n"), put("live", "")};
  options.resources.block_bytes = std::size_t{16} << 10;
  options.order.keys = std::make_shared<HookedKeys>([&] { put("live", joined(lines)); });
  Lines all = lines;
  all.push_back("first");
  EXPECT_GT(expect_output(sorted(all, {})).runs, 1u);
}

// In rounds where the memory has no room for buffers of all, each of them longer than its buffer;
// with equal lines, which come in the order of the inputs.
TEST_F(SeveralInputs, AreMergedInRounds) {
  auto random = test_random();
  options.merge_inputs = true;
  options.order.keys = std::make_shared<KeysBehindComma>();
  options.order.ties = Ties::kInputOrder;
  options.resources.memory_bytes = 2 * kMiB;
  for (const std::size_t count : {5, 30, 300}) {
    options.inputs.clear();
    Lines all;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t longest = random() % 20 == 0 ? 30000 : 100;
      const std::size_t lines_of_one = i % 5 == 4 ? 1 : 600000 / count / longest + 1;
      Lines lines;
      for (std::size_t line = 0; line < lines_of_one; ++line) {
        lines.push_back(std::to_string(i) + std::string(random() % longest, 'x') + "," +
                        std::to_string(random() % 50));
      }
      add_input(sorted(lines, options.order), all);
    }
    SCOPED_TRACE(count);
    const SortReport report = expect_output(sorted(all, options.order));
    EXPECT_EQ(report.runs > 0, count > 5);
    EXPECT_EQ(report.records_in, all.size());
  }
}

TEST_F(SeveralInputs, AreLookedAtBeforeOneIsRead) {
  bool read = false;
  options.order.keys = std::make_shared<HookedKeys>([&] { read = true; });
  options.inputs = {put("here", "a\n"), folder.file("gone")};
  for (const bool merge : {false, true}) {
    options.merge_inputs = merge;
    expect_refused(ENOENT, {"'" + options.inputs[1] + "'"});
  }
  options.inputs[1] = folder.path().string();
  expect_refused(EISDIR);
  EXPECT_FALSE(read);
}

// Keys that are many times as long as what stands behind the comma, and have its order.
class LongKeys final : public RecordKeys {
 public:
  explicit LongKeys(std::size_t times) : times_(times) {}

  void append(std::span<const std::string_view> records, KeyBatch& keys) const override {
    for (const std::string_view record : records) {
      for (std::size_t i = 0; i < times_; ++i) keys.append(behind_comma(record));
      keys.end_key();
    }
  }

 private:
  const std::size_t times_;
};

// Every sort begins as one of few lines. What it does when more come depends on what there is too
// much of.
struct Growth {
  const char* name;
  bool is_pipe;
  std::size_t lines;
  std::size_t longest;
  std::size_t one_longer;  // in the middle
  std::size_t times_key;
  bool becomes_many;
  bool prefixed = false;
  std::size_t memory_bytes = 16 * kMiB;
};
constexpr Growth kGrowths[] = {
    {"FewInAFile", false, 3000, 30, 0, 1, false},
    {"FewInAPipe", true, 3000, 30, 0, 1, false},
    {"MuchTextInAPipe", true, 25000, 200, 0, 1, true},
    {"ManyShortLinesInAPipe", true, 400000, 0, 0, 1, true},
    {"ALongLineInAPipe", true, 3000, 30, 300'000, 1, true},
    {"ALongLineInAFile", false, 3000, 30, 400'000, 1, true},
    {"LongKeysInAFile", false, 3000, 30, 0, 1500, true},
    {"LongKeysInAPipe", true, 3000, 30, 0, 1500, true},
    {"PrefixedInAFile", false, 3000, 200, 0, 1, false, true},
    {"PrefixedInAPipe", true, 3000, 200, 0, 1, false, true},
    {"MuchPrefixedInAPipe", true, 25000, 200, 0, 1, true, true},
    {"PrefixedInLittleMemory", true, 20000, 100, 0, 1, true, true, kMiB},
    {"LinesInLittleMemory", true, 20000, 100, 0, 1, true, false, kMiB},
};

class FewLinesThatGrow : public ::testing::TestWithParam<Growth> {};
INSTANTIATE_TEST_SUITE_P(, FewLinesThatGrow, ::testing::ValuesIn(kGrowths),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(FewLinesThatGrow, AreSortedAllTheSame) {
  const Growth& growth = GetParam();
  auto random = test_random();
  const TemporaryFolder folder{fast_folder()};
  const auto make = [&](std::size_t count) {
    Lines lines;
    for (std::size_t i = 0; i < count; ++i) {
      lines.push_back(std::string(random() % (growth.longest + 1), 'x') + "," +
                      std::to_string(10 + random() % 50));
    }
    return lines;
  };
  const Lines first = make(100);
  Lines second = make(growth.lines);
  if (growth.one_longer != 0) second[second.size() / 2].insert(0, growth.one_longer, 'y');

  LineSortOptions options;
  options.inputs = {folder.file("first"), folder.file("second")};
  options.output = folder.file("out");
  options.header_records = 1;
  options.order.keys = std::make_shared<LongKeys>(growth.times_key);
  options.order.ties = Ties::kInputOrder;
  options.resources.memory_bytes = growth.memory_bytes;
  options.resources.folders = {folder.path().string()};
  unsigned told = 0;
  options.before_threads = [&](SortResources&) { ++told; };
  if (growth.prefixed) options.framing = RecordFraming::length_prefixed();
  const auto with_head = [&](const char* head, Lines lines) {
    lines.insert(lines.begin(), head);
    return framed(lines, options.framing);
  };
  put_file_text(options.inputs[0], with_head("head", first));
  const std::string text = with_head("dropped", second);
  std::thread writer;
  if (growth.is_pipe) {
    ASSERT_EQ(mkfifo(options.inputs[1].c_str(), 0600), 0);
    writer = std::thread([&] { std::ofstream(options.inputs[1], std::ios::binary) << text; });
  } else {
    put_file_text(options.inputs[1], text);
  }
  const SortReport report = sort_lines(options);
  if (writer.joinable()) writer.join();

  Lines all = first;
  all.insert(all.end(), second.begin(), second.end());
  EXPECT_TRUE(file_text(options.output) == with_head("head", sorted(all, options.order)));
  EXPECT_EQ(told, growth.becomes_many ? 1u : 0u);
  EXPECT_EQ(report.plan.memory_bytes, growth.becomes_many ? growth.memory_bytes : 0u);
  EXPECT_EQ(report.records_in, all.size());
  EXPECT_EQ(report.records_out, all.size());
  EXPECT_EQ(report.input_bytes, text.size() + std::filesystem::file_size(options.inputs[0]));
  EXPECT_EQ(report.output_bytes, std::filesystem::file_size(options.output));
}

// While few have come, and when they have become many.
TEST(FewLinesThatAreAwaited, EndWhereTheyAreStopped) {
  for (const bool many : {false, true}) {
    SCOPED_TRACE(many ? "many" : "few");
    const TemporaryFolder folder{fast_folder()};
    LineSortOptions options;
    options.inputs = {folder.file("pipe")};
    options.output = folder.file("out");
    options.resources.folders = {folder.path().string()};
    std::stop_source stop;
    options.resources.stop = stop.get_token();
    std::atomic<bool> grown{false};
    options.before_threads = [&](SortResources&) {
      grown = true;
      grown.notify_all();
    };
    ASSERT_EQ(mkfifo(options.inputs[0].c_str(), 0600), 0);
    std::thread sorter([&] { EXPECT_TRUE(fails([&] { sort_lines(options); }, ECANCELED)); });
    {
      // It opens the pipe when the sort does, and holds it open until the sort has ended.
      std::ofstream pipe(options.inputs[0], std::ios::binary);
      for (int i = 0; i < (many ? 500'000 : 10); ++i) pipe << "a line\n";
      pipe.flush();
      if (many) grown.wait(false);
      stop.request_stop();
      sorter.join();
      EXPECT_EQ(grown, many);
    }
    EXPECT_FALSE(std::filesystem::exists(options.output));
  }
}

}  // namespace

}  // namespace vortex::test::line_inputs_test
