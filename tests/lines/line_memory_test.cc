// A sort of lines takes its memory and 32 MiB besides at most, whatever the lines are like.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "io/sequence/seeded_random.h"
#include "tests/lines/line_cases.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/cases.h"
#include "tests/support/child_peak.h"
#include "tests/support/locales.h"
#include "tests/support/temporary_folder.h"
#include "vortex/line_sort.h"

namespace vortex::test::line_memory_test { namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Setting {
  const char* name;
  std::uint64_t memory_bytes;
  std::uint64_t text_bytes;
  std::uint64_t longest;  // line
  bool keys = false;
  RunCompression compression = RunCompression::kAuto;
  std::uint64_t least_share = 2;  // of the memory is used at least
  bool falls = false;
  unsigned threads = 2;
  std::size_t block_bytes = 0;
};
// With these, 8 MiB merge fewer runs at once than there are.
constexpr std::size_t kLargeBlock = std::size_t{128} << 10;
constexpr Setting kSettings[] = {
    {"ShortIn8", 8 * kMiB, 24 * kMiB, 12},
    {"ShortIn32", 32 * kMiB, 40 * kMiB, 12},
    {"AllInMemory", 160 * kMiB, 64 * kMiB, 200},
    {"FallingIn8", 8 * kMiB, 64 * kMiB, 60, false, RunCompression::kNever, 2, true},
    {"LastStaysIn64", 64 * kMiB, 76 * kMiB, 200},
    {"OrdinaryIn48", 48 * kMiB, 128 * kMiB, 200},
    {"KeysIn48", 48 * kMiB, 96 * kMiB, 200, true},
    // Long lines lie in runs that are compressed always, and else in a file beside them.
    {"LongIn64", 64 * kMiB, 128 * kMiB, 20 * kMiB, false, RunCompression::kAlways},
    {"LongApartIn64", 64 * kMiB, 128 * kMiB, 20 * kMiB, false, RunCompression::kAuto, 4},
    {"LongKeysIn64", 64 * kMiB, 96 * kMiB, 2 * kMiB, true},
    {"CompressedIn8", 8 * kMiB, 64 * kMiB, 200, false, RunCompression::kAlways},
    {"CompressedIn48", 48 * kMiB, 128 * kMiB, 200, false, RunCompression::kAlways},
    {"PassesIn8", 8 * kMiB, 96 * kMiB, 200, false, RunCompression::kNever, 2, false, 7,
     kLargeBlock},
    {"PackedPassesIn8", 8 * kMiB, 96 * kMiB, 200, false, RunCompression::kAlways, 2, false, 7,
     kLargeBlock},
};

// Measures peaks by children, whose memory is not that of a sort.
class PeakTest : public ::testing::Test {
 protected:
  LineSortOptions options_of(std::uint64_t memory_bytes) const {
    LineSortOptions options;
    options.inputs = {folder.file("in")};
    options.output = folder.file("out");
    options.resources.folders = {folder.path().string()};
    options.resources.memory_bytes = memory_bytes;
    options.resources.threads = 2;
    return options;
  }
  static std::uint64_t expect_peak(std::uint64_t memory_bytes, const std::function<void()>& work) {
    const std::uint64_t peak = peak_of(work);
    EXPECT_LE(peak, memory_bytes + 32 * kMiB) << peak / kMiB << " MiB";
    return peak;
  }

  TemporaryFolder folder{fast_folder()};
};

class LineMemory : public PeakTest, public ::testing::WithParamInterface<Setting> {};

INSTANTIATE_TEST_SUITE_P(, LineMemory, ::testing::ValuesIn(kSettings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(LineMemory, StaysWithinItsLimit) {
  const Setting& setting = GetParam();
  peak_of([&] {
    std::ofstream file(folder.file("in"), std::ios::binary);
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; bytes < setting.text_bytes; ++i) {
      const std::uint64_t key = setting.falls ? ~i : mix_bits(i);
      std::string line = std::to_string(key) + ",";
      line.resize((setting.falls ? line.size() : 0) + mix_bits(~i) % setting.longest, 'x');
      bytes += line.size() + 1;
      file << line << '\n';
    }
  });
  const std::uint64_t peak = expect_peak(setting.memory_bytes, [&] {
    LineSortOptions options = options_of(setting.memory_bytes);
    options.resources.compression = setting.compression;
    options.resources.threads = setting.threads;
    options.resources.block_bytes = setting.block_bytes;
    if (setting.keys) options.order.keys = std::make_shared<KeysBehindComma>();
    const SortReport report = sort_lines(options);
    if (setting.block_bytes != 0 && report.passes < 2) _exit(1);
  });
  RecordProperty("peak_MiB", static_cast<int>(peak / kMiB));
  EXPECT_GT(peak, std::min(setting.memory_bytes, setting.text_bytes) / setting.least_share);
}

constexpr const char* kLocale = "en_US.UTF-8";

// Keys that are as long as their lines, or longer.
struct LongLines {
  const char* name;
  std::uint64_t memory_bytes;
  std::uint64_t line_bytes;
  LineKeyOptions keys;
  bool cases = false;  // lines differ in the case of one letter, else in the last one
  char lines = 3;
};
const LongLines kLongLines[] = {
    {"Folded", 256 * kMiB, 40 * kMiB, {.letters = "f"}},
    {"Reverse", 192 * kMiB, 40 * kMiB, {.keys = {"1,1r"}}},
    {"Versions", 192 * kMiB, 20 * kMiB, {.letters = "V"}},
    {"Random", 192 * kMiB, 40 * kMiB, {.letters = "R"}},
    {"Columns", 320 * kMiB, 40 * kMiB, {.keys = {"1f"}, .fields = FieldRules::kCsv}},
    {"CasesInALocale", 256 * kMiB, 30 * kMiB, {.locale = kLocale}, true},
    {"FoldedInALocale", 256 * kMiB, 24 * kMiB, {.keys = {"1,1fr", "1"}, .locale = kLocale}, true},
    {"ManyInALocale", 256 * kMiB, 8 * kMiB, {.locale = kLocale}, true, 9},
    {"ColumnsInALocale",
     256 * kMiB,
     20 * kMiB,
     {.keys = {"1"}, .fields = FieldRules::kCsv, .locale = kLocale},
     true},
};

class LongLineMemory : public PeakTest, public ::testing::WithParamInterface<LongLines> {
 protected:
  static void SetUpTestSuite() {
    locales_.emplace();
    sorted_.emplace();
  }
  static void TearDownTestSuite() {
    locales_.reset();
    sorted_.reset();
  }
  void SetUp() override {
    const auto* const setting =
        std::ranges::find(kLongLines, std::string_view(GetParam().name),
                          [](const LongLines& lines) { return lines.name; });
    if (!has_turn(static_cast<std::uint64_t>(setting - kLongLines), 3)) GTEST_SKIP() << kNotItsTurn;
    PeakTest::SetUp();
    if (IsSkipped()) return;
    peak_of([&] {
      std::ofstream file(folder.file("in"), std::ios::binary);
      for (char last = 'a' + GetParam().lines; last-- > 'a';) {
        std::string line(GetParam().line_bytes, 'y');
        if (GetParam().cases) {
          line[line.size() / 2 + static_cast<std::size_t>(last)] = 'Y';
        } else {
          line += last;
        }
        const bool quoted = GetParam().keys.fields == FieldRules::kCsv;
        file << (quoted ? "\"" + line + "\"" : line) << '\n';
      }
    });
  }
  LineSortOptions options() const {
    LineSortOptions options = options_of(GetParam().memory_bytes);
    options.order = line_order(GetParam().keys);
    return options;
  }
  void expect_within_limit(const std::function<void()>& work) const {
    expect_peak(GetParam().memory_bytes, work);
  }
  // Sorted once for all tests of the same lines.
  std::string sorted_lines() const {
    const std::string sorted = sorted_->file(GetParam().name);
    if (!std::filesystem::exists(sorted)) {
      peak_of([&] { sort_lines(options()); });
      keep_as_sorted();
    }
    return sorted;
  }
  void keep_as_sorted() const {
    std::filesystem::copy_file(folder.file("out"), sorted_->file(GetParam().name));
  }

  static inline std::optional<Locales> locales_;
  static inline std::optional<TemporaryFolder> sorted_;  // on a disk: all lines are much
};

INSTANTIATE_TEST_SUITE_P(, LongLineMemory, ::testing::ValuesIn(kLongLines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(LongLineMemory, OfASort) {
  expect_within_limit([&] { sort_lines(options()); });
  keep_as_sorted();
}

// Two inputs share the memory. What does not fit beside each other is sorted.
TEST_P(LongLineMemory, OfAMerge) {
  const std::string sorted = sorted_lines();
  expect_within_limit([&] {
    LineSortOptions merge = options();
    merge.inputs = {sorted, sorted};
    merge.merge_inputs = true;
    const auto lines = static_cast<std::uint64_t>(GetParam().lines);
    if (sort_lines(merge).records_out != 2 * lines) _exit(1);
  });
}

// The text of the line that is out of order is returned.
TEST_P(LongLineMemory, OfACheckThatFails) {
  const std::string name = GetParam().name;
  // The lines are, or may be, in order.
  if (name == "Random" || name == "Reverse" || GetParam().cases) return;
  const std::uint64_t quotes = GetParam().keys.fields == FieldRules::kCsv ? 2 : 0;
  expect_within_limit([&] {
    const auto found = check_lines(options());
    if (!found || found->text.size() != GetParam().line_bytes + 1 + quotes) _exit(1);
  });
}

// All of it is read where the lines are in order.
TEST_P(LongLineMemory, OfACheck) {
  const std::string sorted = sorted_lines();
  expect_within_limit([&] {
    LineSortOptions check = options();
    check.inputs = {sorted};
    if (check_lines(check)) _exit(1);
  });
}

// Some keys of each input, and a copy of the record before, are beside its blocks.
TEST_F(PeakTest, OfAMergeOfManyInputs) {
  constexpr std::uint64_t kMemory = 64 * kMiB;
  constexpr int kInputs = 120;
  for (const std::size_t line_bytes : {8000, 64005}) {
    SCOPED_TRACE(line_bytes);
    expect_peak(kMemory, [&] {
      LineSortOptions options = options_of(kMemory);
      options.inputs.clear();
      for (int i = 0; i < kInputs; ++i) {
        options.inputs.push_back(folder.file(std::to_string(i)));
        std::ofstream file(options.inputs.back(), std::ios::binary);
        for (const char c : {'a', 'b', 'c'}) file << std::string(line_bytes, c) << '\n';
      }
      options.order = line_order({.keys = {"1V"}});
      options.merge_inputs = true;
      options.resources.block_bytes = std::size_t{64} << 10;
      if (sort_lines(options).records_out != 3 * kInputs) _exit(1);
    });
  }
}

// Threads have blocks, keys and copies of a part of each input.
TEST_F(PeakTest, OfAMergeInParts) {
  constexpr std::uint64_t kMemory = 64 * kMiB;
  constexpr int kInputs = 12, kLines = 60'000;
  for (const unsigned threads : {2U, 7U, 16U}) {
    SCOPED_TRACE(threads);
    expect_peak(kMemory, [&] {
      LineSortOptions options = options_of(kMemory);
      options.inputs.clear();
      for (int i = 0; i < kInputs; ++i) {
        options.inputs.push_back(folder.file(std::to_string(i)));
        std::ofstream file(options.inputs.back(), std::ios::binary);
        for (int line = 0; line < kLines; ++line) {
          file << 1'000'000 + 7 * line << std::string(60, '.') << i << '\n';
        }
      }
      options.merge_inputs = true;
      options.resources.threads = threads;
      options.resources.block_bytes = std::size_t{64} << 10;
      const SortReport report = sort_lines(options);
      if (report.records_out != std::uint64_t{kInputs} * kLines) _exit(1);
      if (report.merge_parts != threads) _exit(2);
    });
  }
}

}  // namespace

}  // namespace vortex::test::line_memory_test
