// Records that are long beside the memory are kept apart: the output is the same, and they are
// written to the disk and read once.
#include "lines/runs/long_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

#include "lines/job/line_plan.h"
#include "tests/lines/line_folder.h"
#include "tests/support/environment.h"
#include "tests/support/random_seed.h"
#include "tests/support/small_file_system.h"
#include "vortex/line_sort.h"

namespace vortex::test::long_lines_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kLong = std::size_t{64} << 10;  // with so little memory

class LinesKeptApart : public LineFolder {
 protected:
  std::string text_of(std::size_t bytes) {
    std::string text(bytes, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 20);
    return text;
  }
  // Many begin as others do, are their beginnings, or equal to them.
  Lines lines_with_long_ones(std::size_t long_ones, std::size_t short_ones) {
    const std::string common = text_of(2 * kLong);
    Lines lines;
    for (std::size_t i = 0; i < long_ones; ++i) {
      const std::size_t bytes = kLong + random() % kLong;
      std::string line = random() % 2 == 0 ? text_of(bytes) : common.substr(0, bytes);
      if (random() % 4 == 0) line[random() % line.size()] = '#';
      if (random() % 2 == 0) line[random() % 100] = ',';
      lines.push_back(random() % 5 == 0 && !lines.empty() ? lines[random() % lines.size()] : line);
    }
    for (std::size_t i = 0; i < short_ones; ++i) {
      lines.push_back(random() % 3 == 0 ? common.substr(0, random() % 300)
                                        : text_of(random() % 300) + "," + text_of(random() % 3));
    }
    std::shuffle(lines.begin(), lines.end(), random);
    return lines;
  }
  // Some letters in upper case.
  void mix_cases(Lines& lines) {
    for (std::string& line : lines) {
      for (std::size_t i = 0; i < line.size(); i += 1 + random() % 40) line[i] = upper(line[i]);
    }
  }
  static char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
  static bool less_in_upper_case(const std::string& a, const std::string& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](char x, char y) { return upper(x) < upper(y); });
  }
  // The lines come out in this order, and the runs take so many quarters of the input at most.
  SortReport expect_kept_apart(const Lines& expected, std::uint64_t quarters) {
    const SortReport report = expect_output(expected);
    EXPECT_LE(report.run_bytes, quarters * report.input_bytes / 4);
    EXPECT_LE(report.passes, 1U);
    return report;
  }

  std::mt19937_64 random = test_random();
};

TEST_F(LinesKeptApart, AreSortedWithTheOthers) {
  for (const bool keys : {false, true}) {
    for (const bool descending : {false, true}) {
      for (const RecordFraming& framing :
           {RecordFraming::delimited(), RecordFraming::length_prefixed(),
            RecordFraming::quoted()}) {
        SCOPED_TRACE(::testing::Message() << "keys " << keys << ", descending " << descending);
        const Lines lines = lines_with_long_ones(40, 3000);
        options.framing = framing;
        put_input(lines);
        options.order = {};
        options.order.descending = descending;
        if (keys) options.order.keys = std::make_shared<KeysBehindComma>();
        // Each is written once, and twice with a key that is nearly as long.
        EXPECT_GT(expect_kept_apart(sorted(lines, options.order), keys ? 9 : 5).runs, 0U);
      }
    }
  }
}

// Whoever comes before a long line is compared with the same piece of it.
TEST_F(LinesKeptApart, AreNotReadForEachOther) {
  const auto bytes_read = [] {
    std::ifstream counts("/proc/self/io");
    std::string name;
    std::uint64_t bytes = 0;
    counts >> name >> bytes;
    return bytes;
  };
  const std::uint64_t before = bytes_read();
  if (before == 0) GTEST_SKIP() << "the kernel does not count what is read";
  Lines lines{std::string(100, 'p') + std::string(2 * kLong, 'z')};
  for (int i = 0; i < 20000; ++i) {
    lines.push_back(std::string(100, 'p') + std::to_string(random() % 100000));
  }
  put_input(lines);
  const SortReport report = expect_kept_apart(sorted(lines, options.order), 5);
  EXPECT_LE(bytes_read() - before, 20 * report.input_bytes);
}

// A key that is the line, in upper case, is not kept beside it.
TEST_F(LinesKeptApart, HaveNoKeyThatIsTheLine) {
  Lines lines = lines_with_long_ones(60, 2000);
  mix_cases(lines);
  put_input(lines);
  std::sort(lines.begin(), lines.end());
  std::stable_sort(lines.begin(), lines.end(), less_in_upper_case);
  for (const char* const letters : {"f", "fr"}) {
    options.order = line_order({.letters = letters});
    expect_kept_apart(lines, 5);
    std::reverse(lines.begin(), lines.end());
  }
}

// What the input decides between equal keys: long keys are equal to long ones only, and records
// with short keys leave another in their place.
TEST_F(LinesKeptApart, KeepTheirPlacesInTheInput) {
  for (const bool long_keys : {false, true}) {
    for (const bool shortened : {false, true}) {
      for (const RecordFraming& framing : {RecordFraming::delimited(), RecordFraming::quoted()}) {
        Lines lines = lines_with_long_ones(40, 3000);
        for (std::string& line : lines) {
          if (long_keys || line.size() < kLong) continue;
          std::replace(line.begin(), line.end(), ',', ';');
          line += "," + text_of(random() % 2);
        }
        options.framing = framing;
        put_input(lines);
        options.order = {};
        options.order.keys = std::make_shared<KeysBehindComma>(
            shortened ? (long_keys ? kLong / 2 + 100 : 1) : std::string_view::npos);
        for (const bool unique : {false, true}) {
          options.order.ties = unique ? Ties::kRecordBytes : Ties::kInputOrder;
          options.order.unique = unique;
          options.order.descending = random() % 2 == 0;
          SCOPED_TRACE(::testing::Message() << long_keys << shortened << unique);
          expect_kept_apart(sorted(lines, options.order), long_keys ? 9 : 6);
        }
      }
    }
  }
}

TEST_F(LinesKeptApart, AreKeptOnceWhereTheyAreTheSame) {
  const Lines lines = lines_with_long_ones(60, 2000);
  put_input(lines);
  options.order.unique = true;
  expect_kept_apart(sorted(lines, options.order), 5);
}

// A key that is the line, in upper case, of which the first or all in their order are kept.
TEST_F(LinesKeptApart, AreInTheOrderOfTheInputWithoutKeys) {
  Lines lines = lines_with_long_ones(60, 2000);
  mix_cases(lines);
  put_input(lines);
  std::stable_sort(lines.begin(), lines.end(), less_in_upper_case);
  options.order = line_order({.letters = "f", .stable = true});
  expect_kept_apart(lines, 5);
  lines.erase(std::unique(lines.begin(), lines.end(),
                          [](const auto& a, const auto& b) { return !less_in_upper_case(a, b); }),
              lines.end());
  options.order = line_order({.letters = "f", .unique = true});
  expect_kept_apart(lines, 5);
}

TEST_F(LinesKeptApart, MayBeMoreThanTheMemoryHasPlacesFor) {
  Lines lines;
  for (int i = 0; i < 300; ++i) {
    lines.push_back(text_of(200));
    lines.back().resize(kLong + random() % 100, 'x');
  }
  put_input(lines);
  options.header_records = 2;
  const Lines records(lines.begin() + 2, lines.end());
  expect_output(sorted(records, {}), lines[0] + "\n" + lines[1] + "\n");
}

TEST_F(LinesKeptApart, ThatHaveNoPlaceLeftComeBehindThoseThatHave) {
  const std::string keys[] = {text_of(kLong / 2 + 1), text_of(kLong / 2), text_of(kLong)};
  Lines lines;
  for (int i = 0; i < 300; ++i) lines.push_back(std::to_string(i) + "," + keys[random() % 3]);
  put_input(lines);
  options.order.keys = std::make_shared<KeysBehindComma>();
  options.order.ties = Ties::kInputOrder;
  for (const bool unique : {false, true}) {
    options.order.unique = unique;
    expect_output(sorted(lines, options.order));
  }
}

enum class LongKeys { kNone, kShort, kAsLong };

// The longest that the plan has room for, of which no two runs could be merged where blocks are
// large.
TEST_F(LinesKeptApart, MayBeAsLongAsThePlanSays) {
  options.resources.threads = 2;  // with half of the memory each time, which is less than a line
  for (const std::size_t blocks : {0, 12, 16}) {
    const std::uint64_t memory = blocks == 16 ? 16 * kMiB : kMiB + random() % (2 * kMiB);
    options.resources.memory_bytes = memory;
    options.resources.block_bytes = blocks == 0 ? 0 : std::bit_floor(memory / blocks);
    for (const std::uint64_t others : {std::uint64_t{1}, memory / 100}) {
      SCOPED_TRACE(::testing::Message() << memory << " bytes, " << others << " others");
      Lines lines = lines_with_long_ones(0, others);
      const std::uint64_t longest =
          plan_lines(options.resources, others == 1 ? memory : 10 * memory).longest_record;
      const std::uint64_t middling = 9000 + random() % 50000;  // not kept apart, and merged
      for (const std::uint64_t bytes : {middling, longest / 2, longest - 100, longest - 1000}) {
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(random() % lines.size()),
                     text_of(bytes));
      }
      for (const LongKeys keys : {LongKeys::kNone, LongKeys::kShort, LongKeys::kAsLong}) {
        options.order = {};
        if (keys != LongKeys::kNone) options.order.keys = std::make_shared<KeysBehindComma>();
        if (keys == LongKeys::kAsLong) {
          options.order.ties = Ties::kInputOrder;
          // The lines fit in memory, but not with their keys.
          std::erase_if(lines, [&](const auto& line) { return line.size() == longest - 1000; });
          for (std::string& line : lines) {
            if (line.size() >= std::min(middling, longest / 2)) line.front() = ',';
          }
        }
        put_input(lines);
        for (const bool unique : {false, true}) {
          options.order.unique = unique;
          expect_output(sorted(lines, options.order));
        }
      }
    }
  }
}

// They must be known to be so long before they lie among the others.
TEST_F(LinesKeptApart, OfAPipeMayBeAsLong) {
  options.inputs = {folder.file("pipe")};
  ASSERT_EQ(mkfifo(options.inputs[0].c_str(), 0600), 0);
  for (const std::size_t blocks : {0, 12}) {
    const std::uint64_t memory = kMiB + random() % (2 * kMiB);
    options.resources.memory_bytes = memory;
    options.resources.block_bytes = blocks == 0 ? 0 : std::bit_floor(memory / blocks);
    const std::uint64_t longest = plan_lines(options.resources, std::nullopt).longest_record;
    for (const std::size_t others : {1, 50000}) {
      Lines lines = lines_with_long_ones(0, others);
      for (const std::uint64_t bytes : {longest - 100, longest / 2}) {
        lines.insert(lines.begin(), text_of(bytes));
      }
      for (const bool stable : {false, true}) {
        options.order = {};
        if (stable) {
          options.order.keys = std::make_shared<KeysBehindComma>();
          options.order.ties = Ties::kInputOrder;
        }
        const std::jthread writer([&] { put_file_text(options.inputs[0], joined(lines)); });
        expect_output(sorted(lines, options.order));
      }
    }
  }
}

TEST_F(LinesKeptApart, GoOnInAnotherFolder) {
  const SmallFileSystem small("tmpfs", kMiB);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  Lines lines;
  for (int i = 0; i < 60; ++i) lines.push_back(text_of(kLong + random() % 1000));
  put_input(lines);
  options.resources.folders = {small.root, runs.path().string()};
  expect_output(sorted(lines, {}));
  std::filesystem::remove(options.output);
  options.resources.folders = {small.root};
  expect_refused(ENOSPC, {small.root});
}

// What a sort keeps apart only since it might not fit lies in memory then.
TEST_F(LinesKeptApart, AreNotWhereTheFolderIsFullAndAllFits) {
  const SmallFileSystem small("tmpfs", kMiB);
  if (!small.refusal.empty()) END_TEST_WITHOUT(small.environment, small.refusal);
  options.resources.memory_bytes = 16 * kMiB;
  options.resources.folders = {small.root};
  Lines lines = lines_with_long_ones(0, 1000);
  for (int i = 0; i < 2; ++i) lines.insert(lines.begin() + 500, "," + text_of(3 * kMiB / 2));
  put_input(lines);
  options.order.keys = std::make_shared<KeysBehindComma>();
  options.order.ties = Ties::kInputOrder;
  EXPECT_EQ(expect_output(sorted(lines, options.order)).runs, 0U);
}

TEST_F(LinesKeptApart, OfSortersAreMergedAsLongAsTwoFit) {
  options.resources.memory_bytes = 1500 << 10;
  options.resources.block_bytes = 128 << 10;
  Lines lines;
  for (int i = 0; i < 300; ++i) lines.push_back(text_of(9000 + random() % 20000));
  LineSorter sorter({}, options.resources);
  for (const std::string& line : lines) sorter.push(line);
  std::sort(lines.begin(), lines.end());
  std::string_view record;
  for (const std::string& line : lines) EXPECT_TRUE(sorter.next(record) && record == line);
  EXPECT_FALSE(sorter.next(record));
}

// A bit of a file without a name in the folder of runs is another one from some moment on.
class FlippedBit {
 public:
  FlippedBit(const std::string& folder, std::mt19937_64& random)
      : folder_(folder), random_(random) {}

  void happen() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string path = std::filesystem::read_symlink(entry.path(), error).string();
      if (error || path.rfind(folder_, 0) != 0) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto bytes = static_cast<std::uint64_t>(file.seekg(0, std::ios::end).tellg());
      if (!file || bytes == 0) continue;
      const auto at = static_cast<std::streamoff>(random_() % bytes);
      const int byte = file.seekg(at).get();
      file.seekp(at).put(static_cast<char>(byte ^ 1 << random_() % 8));
      happened += file.good() ? 1 : 0;
    }
  }

  int happened = 0;

 private:
  const std::string folder_;
  std::mt19937_64& random_;
};

TEST_F(LinesKeptApart, ThatADiskHasChangedAreFoundOut) {
  int found_out = 0;
  for (int i = 0; i < 40; ++i) {
    const Lines lines = lines_with_long_ones(40, 300);
    put_input(lines);
    options.order = {};
    if (i % 2 == 0) options.order.keys = std::make_shared<KeysBehindComma>();
    options.order.ties = i % 4 == 0 ? Ties::kInputOrder : Ties::kRecordBytes;
    FlippedBit bit(runs.path().string(), random);
    const auto phase = random() % 2 == 0 ? SortPhase::kReading : SortPhase::kWriting;
    options.resources.progress = [&, left = random() % 4](const SortProgress& now) mutable {
      if (now.phase == phase && now.bytes > 0 && left-- == 0) bit.happen();
    };
    std::filesystem::remove(options.output);
    try {
      expect_output(sorted(lines, options.order));
    } catch (const Error& error) {
      ++found_out;
      EXPECT_EQ(error.code().value(), EBADMSG) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr("other bytes than were written there"));
      EXPECT_GT(bit.happened, 0);
      EXPECT_FALSE(std::filesystem::exists(options.output));
    }
  }
  EXPECT_GT(found_out, 0);
}

TEST_F(LinesKeptApart, EndWhenTheSortIsStopped) {
  put_input(lines_with_long_ones(100, 10));
  for (const SortPhase phase : {SortPhase::kReading, SortPhase::kWriting}) {
    std::stop_source stop;
    options.resources.stop = stop.get_token();
    options.resources.progress = [&](const SortProgress& now) {
      if (now.phase == phase && now.bytes > 0) stop.request_stop();
    };
    expect_refused(ECANCELED);
  }
}

}  // namespace

}  // namespace vortex::test::long_lines_test
