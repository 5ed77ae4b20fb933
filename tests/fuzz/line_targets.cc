// Texts, keys of lines, and columns of CSV.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/targets.h"
#include "tests/lines/fuzzed_input.h"
#include "tests/lines/fuzzed_keys.h"
#include "tests/sort/sort_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/temporary_folder.h"
#include "vortex/line_sort.h"

namespace vortex::test {

void fuzz_line_input(std::string_view input) {
  static const TemporaryFolder folder(fast_folder());
  EXPECT_STREQ(problem_with_input(folder.path().string(), input), nullptr);
}

void fuzz_line_keys(std::string_view input) { EXPECT_STREQ(problem_with_keys(input), nullptr); }

namespace {

// The values of a record, by the states of Python's csv module, and whether RFC 4180 allows it.
struct FuzzedRow {
  FuzzedRow(std::string_view record, char separator) {
    enum class State { kBegins, kPlain, kInQuotes, kBehindQuote } state = State::kBegins;
    std::string value;
    for (const char c : record) {
      if (state == State::kInQuotes) {
        if (c != '"') {
          value += c;
        } else {
          state = State::kBehindQuote;
        }
      } else if (c == separator) {
        values.push_back(std::exchange(value, {}));
        state = State::kBegins;
      } else if (c == '"' && state == State::kBegins) {
        state = State::kInQuotes;
      } else if (c == '"' && state == State::kBehindQuote) {
        value += c;
        state = State::kInQuotes;
      } else {
        valid = valid && c != '"' && state != State::kBehindQuote;
        value += c;
        state = State::kPlain;
      }
    }
    valid = valid && state != State::kInQuotes;
    values.push_back(value);
  }
  std::vector<std::string> values;
  bool valid = true;
};

struct FuzzedRecord {
  std::string record, key;
};

constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of the byte order

}  // namespace

void fuzz_csv_columns(std::string_view input) {
  static const TemporaryFolder folder(fast_folder());
  FuzzedBytes bytes(input);
  const char separator = ",;\t|"[bytes.below(4)];
  const unsigned column = bytes.below(4);
  const bool descending = bytes.flag();
  LineKeyOptions keys{.keys = {std::to_string(column + 1) + (descending ? "r" : "")}};
  keys.fields = FieldRules::kCsv;
  keys.separator = separator;
  keys.stable = bytes.flag();
  keys.unique = bytes.flag();
  const unsigned times = 1 + bytes.byte();  // so that runs and borders of blocks come up
  const std::string_view part = bytes.rest();
  std::string text;
  for (unsigned i = 0; i < times && text.size() < std::size_t{64} << 10; ++i) text += part;
  if (text.starts_with(kMark)) return;

  std::vector<FuzzedRecord> records;
  std::size_t invalid = 0;
  std::string_view left = text;
  for (std::string& record : FuzzedCsv::records_in(text, separator)) {
    // Of the text: there the record may lack a quote at its end. Lines may end with CR and LF.
    std::string_view in_text = left.substr(0, record.size());
    left.remove_prefix(std::min(record.size() + 1, left.size()));
    if (in_text.size() == record.size() && in_text.ends_with('\r')) in_text.remove_suffix(1);
    const FuzzedRow row(in_text, separator);
    invalid += row.valid ? 0 : 1;
    records.push_back(
        {std::move(record), column < row.values.size() ? row.values[column] : std::string()});
  }
  std::stable_sort(records.begin(), records.end(), [&](const auto& a, const auto& b) {
    const int keys_compared = a.key.compare(b.key);
    if (keys_compared != 0) return descending ? keys_compared > 0 : keys_compared < 0;
    return !keys.stable && !keys.unique && a.record < b.record;
  });
  if (keys.unique) {
    const auto end = std::unique(records.begin(), records.end(),
                                 [](const auto& a, const auto& b) { return a.key == b.key; });
    records.erase(end, records.end());
  }
  std::string expected;
  for (const FuzzedRecord& record : records) (expected += record.record) += '\n';

  LineSortOptions options;
  options.inputs = {folder.file("in")};
  options.output = folder.file("out");
  options.framing = RecordFraming::quoted('\n', separator);
  options.order = line_order(keys);
  options.resources.memory_bytes = std::uint64_t{1} << 20;
  options.resources.block_bytes = std::size_t{16} << 10;
  options.resources.threads = 1;
  options.resources.sync = false;
  put_file_text(options.inputs[0], text);
  const SortReport report = sort_lines(options);
  EXPECT_EQ(report.invalid_records, invalid);
  ASSERT_TRUE(file_text(options.output) == expected);
  options.inputs = {options.output};
  // What is a part of the first record would be read as a mark.
  EXPECT_FALSE(!expected.starts_with(kMark) && check_lines(options).has_value());
}

}  // namespace vortex::test
