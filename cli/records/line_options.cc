#include "cli/records/line_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/common/environment_order.h"
#include "cli/records/csv_head.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"

namespace vortex::cli {

namespace {

constexpr std::string_view kLetters = "bdfghiMnRrV";

std::optional<char> parse_separator(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "\\0") return '\0';
  if (text.size() == 1) return text.front();
  if (text == "\\t") {
    throw Error(EINVAL, "--field-separator '\\t' is two bytes: write a tab as -t $'\\t'");
  }
  throw Error(EINVAL, "--field-separator '" + text + "': it is one byte, or \\0");
}

char csv_separator(const LineOptions& options) {
  const char separator = parse_separator(options.separator).value_or(',');
  if (separator != '"' && separator != '\n' && separator != '\r') return separator;
  throw Error(EINVAL,
              "--field-separator: quotes and the ends of lines have a meaning of their own in CSV: "
              "give another byte, as -t ';'");
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
  bool is_column(const std::string& text);
  std::string several_keys(const std::string& key);
  void expect_one_column(const std::string& column, const std::string& key);

  const LineOptions& options_;
  const std::string& input_;
  std::optional<CsvHead> head_;
};

const CsvHead& CsvKeys::head() {
  if (!head_) head_.emplace(input_, csv_separator(options_));
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

// COLUMN[:LETTERS]
bool CsvKeys::is_column(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const bool letters = colon != std::string::npos &&
                       text.find_first_not_of(kLetters, colon + 1) == std::string::npos;
  const std::string column = letters ? text.substr(0, colon) : text;
  if (is_number(column)) return true;
  const CsvHead* const names = options_.header > 0 ? head_if_readable() : nullptr;
  return names != nullptr && names->column_named(column).has_value();
}

// As a shell takes it.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 || c == '_' || c == '-' || c == '.' || c == ':';
  };
  return std::all_of(text.begin(), text.end(), is_plain) ? text : "'" + text + "'";
}

// The options for a key that is a list of columns; empty: it is none.
std::string CsvKeys::several_keys(const std::string& key) {
  std::string options;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find(',', begin), key.size());
    const std::string part = key.substr(begin, end - begin);
    if (!is_column(part)) return {};
    options += (begin == 0 ? "-k " : " -k ") + shell_word(part);
    begin = end + 1;
  }
  return options;
}

// F[LETTERS][,F[LETTERS]] within one field, as a key of lines is written, for one of CSV; empty: it
// is none.
std::string as_key_of_csv(const std::string& key) {
  std::string letters;
  const auto take_field = [&](const std::string& text) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    letters += text.substr(digits);
    return text.substr(0, digits);
  };
  const std::size_t comma = key.find(',');
  const std::string field = take_field(key.substr(0, comma));
  if (comma != std::string::npos && take_field(key.substr(comma + 1)) != field) return {};
  if (field.empty() || letters.find_first_not_of(kLetters) != std::string::npos) return {};
  return letters.empty() ? field : field + ":" + letters;
}

// Refuses what is written as keys of lines are, or as a list, unless a column is called so.
void CsvKeys::expect_one_column(const std::string& column, const std::string& key) {
  const CsvHead* const names = options_.header > 0 ? head_if_readable() : nullptr;
  if (names != nullptr && names->column_named(column)) return;
  if (const std::string meant = as_key_of_csv(key); !meant.empty()) {
    throw Error(EINVAL, fmt::format("no column is called '{}': a key of column {} is -k {}", key,
                                    meant.substr(0, meant.find(':')), meant));
  }
  if (const std::string meant = several_keys(key); !meant.empty()) {
    throw Error(EINVAL, fmt::format("no column is called '{}': for several keys repeat the option, "
                                    "{}",
                                    key, meant));
  }
}

std::string CsvKeys::number_of(const std::string& column, const std::string& key) {
  const bool number = is_number(column);
  if (!number) expect_one_column(column, key);
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

RecordFraming line_framing(const LineOptions& options) {
  if (options.lines && options.csv) {
    throw Error(EINVAL, "--lines and --csv contradict each other");
  }
  if (options.strict && !options.csv) {
    throw Error(EINVAL, "--strict is about the quotes of CSV: give --csv, too");
  }
  if (!options.csv) return RecordFraming::delimited(options.zero_terminated ? '\0' : '\n');
  if (options.zero_terminated) {
    throw Error(EINVAL, "--zero-terminated is for --lines; records of --csv end with a newline");
  }
  return RecordFraming::quoted('\n', csv_separator(options),
                               options.strict ? InvalidQuotes::kRefused : InvalidQuotes::kKept);
}

LineOrder line_order_of(const LineOptions& options, const RecordOptions& records,
                        const std::string& first_input, bool stable, bool unique) {
  LineKeyOptions what;
  CsvKeys csv_keys(options, first_input);
  for (const std::string& key : records.keys) {
    what.keys.push_back(options.csv ? csv_keys.numbered(key) : key);
  }
  what.letters = options.letters;
  if (records.reverse) what.letters += 'r';
  what.separator = parse_separator(options.separator);
  what.fields = options.csv ? FieldRules::kCsv : FieldRules::kLines;
  what.stable = stable;
  what.unique = unique;
  what.random_seed = system_random_seed();
  return order_in_locale_of_environment(std::move(what));
}

}  // namespace

LineSortOptions parse_lines(const LineOptions& options, const RecordOptions& records,
                            const std::vector<std::string>& inputs, bool stable, bool unique) {
  const char* const of_records = !records.form.empty()     ? "--form"
                                 : !records.record.empty() ? "--record"
                                                           : nullptr;
  if (of_records != nullptr) {
    throw Error(EINVAL, fmt::format("{} is for records of one length, not for lines", of_records));
  }
  if (std::count(inputs.begin(), inputs.end(), "-") > 1) {
    throw Error(EINVAL, "standard input can be read once only");
  }
  LineSortOptions what;
  what.framing = line_framing(options);
  what.order = line_order_of(options, records, inputs.front(), stable, unique);
  what.inputs = inputs;
  what.header_records = options.header;
  return what;
}

void expect_no_line_options(const LineOptions& options) {
  if (!options.stray()) return;
  throw Error(EINVAL,
              "orders of text, --field-separator, --zero-terminated, --header and --strict need "
              "--lines or --csv");
}

void warn_of_unclosed(const SortReport& report) {
  if (report.unclosed_records == 0) return;
  fmt::print(stderr,
             "vortex: warning: the last record of {} never closes a quote and has all that lies "
             "behind it; --strict tells where\n",
             report.unclosed_records == 1 ? "an input"
                                          : fmt::format("{} inputs", report.unclosed_records));
}

}  // namespace vortex::cli
