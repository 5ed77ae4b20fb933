#include "cli/line_options.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/csv_head.h"
#include "cli/environment_order.h"
#include "vortex/error.h"
#include "vortex/line_key.h"

namespace vortex::cli {
namespace {

constexpr std::string_view kLetters = "bdfghiMnRrV";

std::optional<char> parse_separator(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "\\0") return '\0';
  if (text.size() == 1) return text.front();
  throw Error(EINVAL, "--field-separator '" + text + "': it is one byte, or \\0");
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_beyond(std::string_view number, std::size_t columns) {
  std::size_t value = 0;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  return error == std::errc::result_out_of_range || value > columns;
}

// Turns a key of CSV, COLUMN[:LETTERS], into F[LETTERS], by which the library knows it.
class CsvKeys {
 public:
  CsvKeys(const LineOptions& options, const std::string& first_input)
      : options_(options), input_(first_input) {}

  std::string numbered(const std::string& key);

 private:
  std::string number_of(const std::string& column, const std::string& key);
  const CsvHead& head();
  const CsvHead* head_if_readable();

  const LineOptions& options_;
  const std::string& input_;
  std::optional<CsvHead> head_;
};

const CsvHead& CsvKeys::head() {
  if (!head_) head_.emplace(input_, parse_separator(options_.separator).value_or(','));
  return *head_;
}

// Numbers need no head: what is wrong with the input is the sort's to tell.
const CsvHead* CsvKeys::head_if_readable() {
  try {
    return &head();
  } catch (const Error&) {
    return nullptr;
  }
}

std::string CsvKeys::number_of(const std::string& column, const std::string& key) {
  const bool number = is_number(column);
  if (options_.header == 0) {
    if (number) return column;
    throw Error(EINVAL, "--key '" + key +
                            "' names a column: say with --header 1 that the first "
                            "record of each input holds the names; a number has a colon in front "
                            "of its letters, 2:nr");
  }
  const CsvHead* const names = number ? head_if_readable() : &head();
  if (names == nullptr) return column;
  if (const auto named = names->column_named(column)) return std::to_string(*named);
  if (!number) {
    throw Error(EINVAL,
                fmt::format("no column is called '{}'; the head is: {}", column, names->text()));
  }
  // The first of several records may be a title of fewer columns.
  if (options_.header == 1 && is_beyond(column, names->columns())) {
    throw Error(EINVAL, fmt::format("--key '{}': the head has {} columns, none called '{}': {}",
                                    key, names->columns(), column, names->text()));
  }
  return column;
}

std::string CsvKeys::numbered(const std::string& key) {
  const std::size_t colon = key.rfind(':');
  if (colon != std::string::npos && options_.header > 0) {
    const CsvHead* const names = head_if_readable();
    if (names != nullptr && names->column_named(key)) return number_of(key, key);
  }
  std::string column = key.substr(0, colon);
  std::string letters = colon == std::string::npos ? "" : key.substr(colon + 1);
  if (letters.find_first_not_of(kLetters) != std::string::npos) {  // a colon of the name
    column = key;
    letters.clear();
  }
  return number_of(column, key) + letters;
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
  CsvKeys csv_keys(options, inputs.front());
  for (const std::string& key : keys) {
    what.keys.push_back(options.csv ? csv_keys.numbered(key) : key);
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
