#include "cli/line_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/environment_order.h"
#include "lines/framing.h"
#include "lines/keys/field_finder.h"
#include "lines/keys/key_locale.h"
#include "vortex/error.h"
#include "vortex/line_key.h"

namespace vortex::cli {
namespace {

constexpr std::string_view kLetters = "bdfghiMnRrV";
constexpr std::size_t kMaxHeadBytes = std::size_t{1} << 20;

std::optional<char> parse_separator(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "\\0") return '\0';
  if (text.size() == 1) return text.front();
  throw Error(EINVAL, "--field-separator '" + text + "': it is one byte, or \\0");
}

// Names of columns are looked up before the sort reads its inputs. What a pipe gave then would be
// missing from the sort, and to open one may wait for ever.
void expect_readable_twice(const std::string& path) {
  std::error_code error;
  const bool regular = path != "-" && std::filesystem::is_regular_file(path, error);
  if (error) throw Error(error.value(), "read the head of '" + path + "'");
  if (regular) return;
  throw Error(EINVAL,
              fmt::format("names of columns need a first input that can be read twice, and {} is "
                          "no regular file: give the numbers of the columns",
                          path == "-" ? "standard input" : "'" + path + "'"));
}

// The first record of a file, which holds the names of the columns.
std::string head_of(const std::string& path) {
  expect_readable_twice(path);
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) throw Error(errno, "read the head of '" + path + "'");
  std::string text(kMaxHeadBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::string_view head;
  const FramedRecords found = split_records(RecordFraming::quoted(), text, file.eof(), {&head, 1});
  if (found.records == 1) return std::string(head);
  throw Error(EINVAL, fmt::format("'{}' has no head that ends in its first {}", path,
                                  format_bytes(kMaxHeadBytes)));
}

// The number of a column, from 1.
std::size_t column_named(std::string_view name, const std::string& head, char separator) {
  const KeyLocale locale("C");
  const CsvFields fields(locale, separator);
  const auto columns =
      static_cast<std::size_t>(std::count(head.begin(), head.end(), separator)) + 1;
  std::string scratch;
  for (std::size_t column = 0; column < columns; ++column) {
    const KeySpecification where{.begin_field = column, .end_field = column};
    if (fields.find(head, where, scratch) == name) return column + 1;
  }
  throw Error(EINVAL, fmt::format("no column is called '{}'; the head is: {}", name, head));
}

// COLUMN[:LETTERS] as F[LETTERS], by which the library knows it.
std::string numbered_key(const std::string& text, const LineOptions& options,
                         const std::vector<std::string>& inputs) {
  const std::size_t colon = text.rfind(':');
  std::string column = text.substr(0, colon);
  std::string letters = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (letters.find_first_not_of(kLetters) != std::string::npos) {  // a colon of the name
    column = text;
    letters.clear();
  }
  const bool number = !column.empty() && std::isdigit(static_cast<unsigned char>(column.front()));
  if (number) return column + letters;
  if (options.header == 0) {
    throw Error(EINVAL, "--key '" + text +
                            "' names a column: say with --header 1 that the first "
                            "record of each input holds the names");
  }
  const char separator = parse_separator(options.separator).value_or(',');
  return std::to_string(column_named(column, head_of(inputs.front()), separator)) + letters;
}

}  // namespace

RecordFraming line_framing(const LineOptions& options) {
  if (options.lines && options.csv) {
    throw Error(EINVAL, "--lines and --csv contradict each other");
  }
  if (!options.csv) return RecordFraming::delimited(options.zero_terminated ? '\0' : '\n');
  if (options.zero_terminated) {
    throw Error(EINVAL, "--zero-terminated is for --lines; records of --csv end with a newline");
  }
  return RecordFraming::quoted();
}

LineOrder parse_line_order(const LineOptions& options, const std::vector<std::string>& keys,
                           const std::vector<std::string>& inputs, bool reverse, bool stable,
                           bool unique) {
  LineKeyOptions what;
  for (const std::string& key : keys) {
    what.keys.push_back(options.csv ? numbered_key(key, options, inputs) : key);
  }
  what.letters = options.letters;
  if (reverse) what.letters += 'r';
  what.separator = parse_separator(options.separator);
  what.fields = options.csv ? FieldRules::kCsv : FieldRules::kLines;
  what.stable = stable;
  what.unique = unique;
  what.random_seed = system_random_seed();
  return order_in_locale_of_environment(std::move(what));
}

}  // namespace vortex::cli
