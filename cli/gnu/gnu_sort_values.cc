#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <system_error>

#include "cli/common/process.h"
#include "cli/gnu/gnu_sort_options.h"
#include "vortex/error.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {

namespace {

// A number in front of a suffix, which is left in `text`; too large ones are the largest. As for
// strtoumax(), blanks and a sign may stand in front.
struct Number {
  std::uint64_t value = 0;
  bool too_large = false;
};

std::optional<Number> take_number(std::string_view& text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error == std::errc::invalid_argument) return std::nullopt;
  number.too_large = error == std::errc::result_out_of_range;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

// The GNU programs quote this way.
std::string with_escaped_backslashes(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '\\' ? "\\\\" : std::string(1, c);
  return escaped;
}

struct Word {
  std::string_view name;
  char letter;
};

constexpr Word kSortWords[] = {{"general-numeric", 'g'}, {"human-numeric", 'h'}, {"month", 'M'},
                               {"numeric", 'n'},         {"random", 'R'},        {"version", 'V'}};
constexpr Word kCheckWords[] = {{"quiet", 'C'}, {"silent", 'C'}, {"diagnose-first", 'c'}};

// The letter of a word, which may be cut short where that leaves one meaning.
char letter_of(std::string_view text, std::span<const Word> words, const char* option,
               const char* list) {
  std::optional<char> found;
  bool ambiguous = false;
  for (const Word& word : words) {
    if (word.name == text) return word.letter;
    if (!word.name.starts_with(text)) continue;
    ambiguous |= found && *found != word.letter;
    found = word.letter;
  }
  if (found && !ambiguous) return *found;
  throw UsageError(fmt::format("{} argument '{}' for '{}'\nValid arguments are:\n{}",
                               ambiguous ? "ambiguous" : "invalid", printable(text), option, list),
                   true, kExitNotSorted);  // as in GNU sort
}

}  // namespace

std::uint64_t parse_count(std::string_view text, const char* option) {
  std::string_view rest = text;
  const std::optional<Number> number = take_number(rest);
  if (!number) throw UsageError(fmt::format("invalid {} argument '{}'", option, printable(text)));
  if (!rest.empty()) {
    throw UsageError(fmt::format("invalid suffix in {} argument '{}'", option, printable(text)));
  }
  return number->too_large ? std::numeric_limits<std::uint64_t>::max() : number->value;
}

std::uint64_t parse_memory(std::string_view text, const char* option) {
  std::string_view rest = text;
  std::optional<Number> number = take_number(rest);
  if (!number && text.find_first_of("EgGkKmMPtTYZ") == 0) number = Number{.value = 1};
  if (!number) throw UsageError(fmt::format("invalid {} argument '{}'", option, printable(text)));
  const auto refuse_too_large = [&] {
    throw UsageError(fmt::format("{} argument '{}' too large", option, printable(text)));
  };
  if (rest == "%" && !number->too_large) {
    const std::uint64_t percent = memory_limits().usable_bytes() / 100;
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(percent, number->value, &bytes)) refuse_too_large();
    return bytes;
  }
  constexpr std::string_view kUnits = "bKMGTPEZY";
  constexpr std::string_view kSmallUnits = "bkmgt";  // as GNU sort: the others are capitals
  const char unit = rest.empty() ? 'k' : rest[0];
  std::size_t power = kSmallUnits.find(unit);
  if (power == std::string_view::npos) power = kUnits.find(unit);
  if (rest.size() > 1 || power == std::string_view::npos) {
    throw UsageError(fmt::format("invalid suffix in {} argument '{}'", option, printable(text)));
  }
  if (number->too_large || power > 6 ||
      (number->value << 10 * power) >> 10 * power != number->value) {
    refuse_too_large();
  }
  return number->value << 10 * power;
}

char parse_separator(std::string_view text) {
  if (text.empty()) throw UsageError("empty tab");
  if (text == "\\0") return '\0';
  if (text.size() > 1) {
    throw UsageError(
        fmt::format("multi-character tab '{}'", printable(with_escaped_backslashes(text))));
  }
  return text.front();
}

std::vector<std::string> read_names(const std::string& path) {
  std::string text;
  try {
    if (path == "-") {
      text = rest_of_standard_input();
    } else {
      std::ifstream file(path, std::ios::binary);
      if (!file) {
        throw UsageError(fmt::format("open failed: {}: {}", path.empty() ? "''" : printable(path),
                                     std::strerror(errno)));
      }
      text.assign(std::istreambuf_iterator<char>(file), {});
    }
  } catch (const std::system_error&) {  // a folder, for instance
    throw UsageError(fmt::format("cannot read file names from '{}'", printable(path)));
  }
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    names.push_back(text.substr(at, end - at));
    if (names.back().empty()) {
      throw UsageError(
          fmt::format("{}:{}: invalid zero-length file name", printable(path), names.size()));
    }
    if (names.back() == "-") {  // GNU sort says so of other files, too
      throw UsageError("when reading file names from stdin, no file name of '-' allowed");
    }
    at = end + 1;
  }
  if (names.empty()) throw UsageError(fmt::format("no input from '{}'", printable(path)));
  return names;
}

char parse_check_word(std::string_view text) {
  return letter_of(text, kCheckWords, "--check", "  - 'quiet', 'silent'\n  - 'diagnose-first'");
}

char parse_sort_word(std::string_view text) {
  return letter_of(text, kSortWords, "--sort",
                   "  - 'general-numeric'\n  - 'human-numeric'\n  - 'month'\n"
                   "  - 'numeric'\n  - 'random'\n  - 'version'");
}

}  // namespace vortex::cli
