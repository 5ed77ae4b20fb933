#include "cli/gnu_sort_options.h"

#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <ios>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "cli/suggestion.h"
#include "lines/keys/key_specification.h"
#include "vortex/error.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {
namespace {

// What getopt_long() returns for operands, and for long options without a letter.
enum : int {
  kOperand = 1,
  kBatchSize = 256,
  kCheck,
  kCompressProgram,
  kDebug,
  kFiles0From,
  kHelp,
  kInPlace,
  kNoSync,
  kParallel,
  kProgress,
  kRandomSource,
  kSort,
  kVersion,
};

// The hyphen in front: operands come where they stand among the options, as kOperand.
constexpr const char* kShortOptions = "-bcCdfghik:mMno:rRsS:t:T:uVy:z";

const option kLongOptions[] = {
    {"ignore-leading-blanks", no_argument, nullptr, 'b'},
    {"check", optional_argument, nullptr, kCheck},
    {"compress-program", required_argument, nullptr, kCompressProgram},
    {"debug", no_argument, nullptr, kDebug},
    {"dictionary-order", no_argument, nullptr, 'd'},
    {"ignore-case", no_argument, nullptr, 'f'},
    {"files0-from", required_argument, nullptr, kFiles0From},
    {"general-numeric-sort", no_argument, nullptr, 'g'},
    {"ignore-nonprinting", no_argument, nullptr, 'i'},
    {"key", required_argument, nullptr, 'k'},
    {"merge", no_argument, nullptr, 'm'},
    {"month-sort", no_argument, nullptr, 'M'},
    {"numeric-sort", no_argument, nullptr, 'n'},
    {"n", no_argument, nullptr, 'n'},  // GNU sort has one that begins so
    {"no-sync", no_argument, nullptr, kNoSync},
    {"human-numeric-sort", no_argument, nullptr, 'h'},
    {"version-sort", no_argument, nullptr, 'V'},
    {"random-sort", no_argument, nullptr, 'R'},
    {"random-source", required_argument, nullptr, kRandomSource},
    {"sort", required_argument, nullptr, kSort},
    {"in-place", no_argument, nullptr, kInPlace},
    {"output", required_argument, nullptr, 'o'},
    {"reverse", no_argument, nullptr, 'r'},
    {"stable", no_argument, nullptr, 's'},
    {"batch-size", required_argument, nullptr, kBatchSize},
    {"buffer-size", required_argument, nullptr, 'S'},
    {"field-separator", required_argument, nullptr, 't'},
    {"temporary-directory", required_argument, nullptr, 'T'},
    {"unique", no_argument, nullptr, 'u'},
    {"zero-terminated", no_argument, nullptr, 'z'},
    {"parallel", required_argument, nullptr, kParallel},
    {"p", required_argument, nullptr, kParallel},  // GNU sort has one that begins so
    {"progress", no_argument, nullptr, kProgress},
    {"help", no_argument, nullptr, kHelp},
    {"version", no_argument, nullptr, kVersion},
    {nullptr, 0, nullptr, 0},
};

// A number in front of a suffix, which is left in `text`; too large ones are the largest.
struct Number {
  std::uint64_t value = 0;
  bool too_large = false;
};

std::optional<Number> take_number(std::string_view& text) {
  Number number;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error == std::errc::invalid_argument) return std::nullopt;
  number.too_large = error == std::errc::result_out_of_range;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

std::uint64_t parse_count(std::string_view text, const char* option) {
  std::string_view rest = text;
  const std::optional<Number> number = take_number(rest);
  if (!number) throw UsageError(fmt::format("invalid {} argument '{}'", option, text));
  if (!rest.empty()) {
    throw UsageError(fmt::format("invalid suffix in {} argument '{}'", option, text));
  }
  return number->too_large ? std::numeric_limits<std::uint64_t>::max() : number->value;
}

// KiB without a unit, bytes with b, percent of the memory with %, else powers of 1024. `option` is
// what the size was given behind.
std::uint64_t parse_memory(std::string_view text, const char* option) {
  std::string_view rest = text;
  const std::optional<Number> number = take_number(rest);
  if (!number) throw UsageError(fmt::format("invalid {} argument '{}'", option, text));
  const auto refuse_too_large = [&] {
    throw UsageError(fmt::format("{} argument '{}' too large", option, text));
  };
  if (rest == "%" && !number->too_large) {
    const std::uint64_t percent = memory_limits().usable_bytes() / 100;
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(percent, number->value, &bytes)) refuse_too_large();
    return bytes;
  }
  constexpr std::string_view kUnits = "bKMGTPEZY";
  const char unit = rest.empty()  ? 'K'
                    : rest == "b" ? 'b'
                                  : static_cast<char>(std::toupper(rest[0]));
  const std::size_t power = kUnits.find(unit);
  if (rest.size() > 1 || power == std::string_view::npos) {
    throw UsageError(fmt::format("invalid suffix in {} argument '{}'", option, text));
  }
  if (number->too_large || power > 6 ||
      (number->value << 10 * power) >> 10 * power != number->value) {
    refuse_too_large();
  }
  return number->value << 10 * power;
}

// As the GNU programs quote.
std::string with_escaped_backslashes(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '\\' ? "\\\\" : std::string(1, c);
  return escaped;
}

char parse_separator(std::string_view text) {
  if (text.empty()) throw UsageError("empty tab");
  if (text == "\\0") return '\0';
  if (text.size() > 1) {
    throw UsageError(fmt::format("multi-character tab '{}'", with_escaped_backslashes(text)));
  }
  return text.front();
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
                               ambiguous ? "ambiguous" : "invalid", text, option, list),
                   true, kExitNotSorted);  // as in GNU sort
}

// Names that NULs end.
std::vector<std::string> read_names(const std::string& path) {
  std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  if (!file) {
    throw UsageError(
        fmt::format("open failed: {}: {}", path.empty() ? "''" : path, std::strerror(errno)));
  }
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure&) {  // a folder, for instance
    throw UsageError(fmt::format("cannot read file names from '{}'", path));
  }
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    names.push_back(text.substr(at, end - at));
    if (names.back().empty()) {
      throw UsageError(fmt::format("{}:{}: invalid zero-length file name", path, names.size()));
    }
    if (names.back() == "-") {  // GNU sort says so of other files, too
      throw UsageError("when reading file names from stdin, no file name of '-' allowed");
    }
    at = end + 1;
  }
  if (names.empty()) throw UsageError(fmt::format("no input from '{}'", path));
  return names;
}

// What may have been meant where getopt has told of an argument that it does not know; empty where
// nothing is near.
std::string suggested_option(std::string_view argument) {
  const std::string name(argument.substr(0, argument.find('=')));
  if (!name.starts_with("--")) return {};
  std::vector<std::string> names;
  for (const option* known = kLongOptions; known->name != nullptr; ++known) {
    if (known->name[1] == '\0') continue;
    names.push_back(std::string("--") + known->name);
    if (names.back().starts_with(name)) return {};  // cut short, and of several meanings
  }
  const std::string_view nearest = nearest_word(name, names);
  return nearest.empty() ? std::string() : fmt::format("did you mean '{}'?", nearest);
}

class Parser {
 public:
  GnuSortOptions parse(int argc, char** argv);

 private:
  using Action = GnuSortOptions::Action;

  void take(int letter, const char* argument, bool is_long);
  void take_check(char letter);
  void take_once(std::optional<std::string>& place, const char* argument, const char* several);
  void take_operand(const char* operand);
  bool options_have_ended(int argc, char** argv) const;
  void take_inputs();
  void expect_one_input() const;

  GnuSortOptions options_;
  char** argv_ = nullptr;
  std::vector<std::string> operands_;
  std::optional<std::string> names_file_;
  char check_ = '\0';  // c or C
  bool merge_ = false;
};

void Parser::take_check(char letter) {
  if (check_ != '\0' && check_ != letter) throw UsageError("options '-cC' are incompatible");
  check_ = letter;
}

void Parser::take_once(std::optional<std::string>& place, const char* argument,
                       const char* several) {
  if (place && *place != argument) throw UsageError(several);
  place = argument;
}

void Parser::take(int letter, const char* argument, bool is_long) {
  switch (letter) {
    case 'c':
    case 'C':
      take_check(static_cast<char>(letter));
      break;
    case kCheck:
      take_check(argument == nullptr ? 'c'
                                     : letter_of(argument, kCheckWords, "--check",
                                                 "  - 'quiet', 'silent'\n  - 'diagnose-first'"));
      break;
    case kSort:
      options_.keys.letters += letter_of(argument, kSortWords, "--sort",
                                         "  - 'general-numeric'\n  - 'human-numeric'\n  - 'month'\n"
                                         "  - 'numeric'\n  - 'random'\n  - 'version'");
      break;
    case 'k':
      parse_key_specification(argument);  // what is wrong with it is told before what follows
      options_.keys.keys.emplace_back(argument);
      break;
    case 'm':
      merge_ = true;
      break;
    case 'o':
      take_once(options_.output, argument, "multiple output files specified");
      break;
    case 's':
      options_.keys.stable = true;
      break;
    case 'S':
      options_.memory_bytes =
          std::max(options_.memory_bytes, parse_memory(argument, is_long ? "--buffer-size" : "-S"));
      break;
    case 't': {
      const char separator = parse_separator(argument);
      if (options_.keys.separator.value_or(separator) != separator) {
        throw UsageError("incompatible tabs");
      }
      options_.keys.separator = separator;
      break;
    }
    case 'T':
      options_.folders.emplace_back(argument);
      break;
    case 'u':
      options_.keys.unique = true;
      break;
    case 'y':  // of Solaris, and without a meaning here
      // An argument of its own that is no number is the next operand.
      if (argument == argv_[optind - 1] && argument[std::strspn(argument, "0123456789")] != '\0') {
        --optind;
      }
      break;
    case 'z':
      options_.zero_terminated = true;
      break;
    case kBatchSize:
      // How many runs are merged at once is the plan's business.
      if (parse_count(argument, "--batch-size") < 2) {
        throw UsageError(
            fmt::format("invalid --batch-size argument '{}': the minimum is '2'", argument));
      }
      break;
    case kParallel: {
      const std::uint64_t threads = parse_count(argument, "--parallel");
      if (threads == 0) throw UsageError("number in parallel must be nonzero");
      options_.threads = static_cast<unsigned>(std::min<std::uint64_t>(threads, kMaxSortThreads));
      break;
    }
    case kFiles0From:
      names_file_ = argument;
      break;
    case kRandomSource:
      take_once(options_.random_source, argument, "multiple random sources specified");
      break;
    case kCompressProgram:
      options_.compress_runs = true;
      break;
    case kDebug:
      options_.debug = true;
      break;
    case kInPlace:
      options_.in_place = true;
      break;
    case kProgress:
      options_.progress = true;
      break;
    case kNoSync:
      options_.sync = false;
      break;
    case kHelp:
      options_.action = Action::kHelp;
      break;
    case kVersion:
      options_.action = Action::kVersion;
      break;
    default:
      options_.keys.letters += static_cast<char>(letter);
      break;
  }
}

// A key of the form +1 -2 is refused before getopt meets its -2.
void Parser::take_operand(const char* operand) {
  const std::string_view text = operand;
  if (text.size() > 1 && text[0] == '+' && std::isdigit(static_cast<unsigned char>(text[1]))) {
    throw UsageError(fmt::format(
        "'{}': keys of the form +1 -2 are not there; write -k 2,2 for it, or ./{} for a file", text,
        text));
  }
  operands_.emplace_back(operand);
}

void Parser::take_inputs() {
  if (names_file_) {
    if (!operands_.empty()) {
      throw UsageError(fmt::format("extra operand '{}'\nfile operands cannot be combined with "
                                   "--files0-from",
                                   operands_.front()),
                       true);
    }
    options_.inputs = read_names(*names_file_);
  } else {
    options_.inputs = operands_;
  }
  if (options_.inputs.empty()) options_.inputs.emplace_back("-");
}

void Parser::expect_one_input() const {
  if (options_.inputs.size() > 1) {
    throw UsageError(
        fmt::format("extra operand '{}' not allowed with -{}", options_.inputs[1], check_));
  }
  if (options_.output) {
    throw UsageError(fmt::format("options '-{}o' are incompatible", check_));
  }
}

// The first operand ends them for POSIX, but GNU sort takes -o FILE behind it even then.
bool Parser::options_have_ended(int argc, char** argv) const {
  if (operands_.empty() || std::getenv("POSIXLY_CORRECT") == nullptr) return false;
  if (check_ != '\0' || optind >= argc) return true;
  const std::string_view next = argv[optind];
  return !next.starts_with("-o") || (next == "-o" && optind + 1 == argc);
}

GnuSortOptions Parser::parse(int argc, char** argv) {
  argv_ = argv;
  optind = 0;  // forgets what was parsed before
  for (int letter = 0;;) {
    if (letter != -1 && !options_have_ended(argc, argv)) {
      int long_option = -1;
      letter = getopt_long(argc, argv, kShortOptions, kLongOptions, &long_option);
      if (letter == kOperand) take_operand(optarg);
      if (letter == '?') throw UsageError(suggested_option(argv[optind - 1]), true);
      if (letter > kOperand) take(letter, optarg, long_option >= 0);
      if (options_.action == Action::kHelp || options_.action == Action::kVersion) return options_;
      continue;
    }
    if (optind >= argc) break;
    operands_.emplace_back(argv[optind++]);
  }
  take_inputs();
  if (check_ != '\0') {
    expect_one_input();
    options_.action = check_ == 'c' ? Action::kCheck : Action::kCheckQuietly;
  } else if (merge_) {
    options_.action = Action::kMerge;
  }
  return options_;
}

}  // namespace

GnuSortOptions parse_gnu_sort_options(int argc, char** argv) { return Parser().parse(argc, argv); }

std::string gnu_sort_help(const char* program) {
  return fmt::format(R"(Usage: {0} [OPTION]... [FILE]...
  or:  {0} [OPTION]... --files0-from=F
Sorts the lines of all files, or of standard input (-), as GNU sort does.

Orders:
  -b,--ignore-leading-blanks   leave out blanks in front
  -d,--dictionary-order        consider blanks, letters and digits only
  -f,--ignore-case             take lower case for upper case
  -g,--general-numeric-sort    compare floating-point numbers
  -h,--human-numeric-sort      compare numbers with units (2K 1G)
  -i,--ignore-nonprinting      consider printable characters only
  -M,--month-sort              compare months (JAN to DEC)
  -n,--numeric-sort            compare numbers of any length
  -R,--random-sort             shuffle, with equal keys together
  --random-source=FILE         take the randomness from the file
  -r,--reverse                 turn the order round
  --sort=WORD                  general-numeric, human-numeric, month, numeric, random or version
  -V,--version-sort            compare versions within text

Keys:
  -k,--key=KEYDEF              F[.C][OPTS][,F[.C][OPTS]]: from there to there; may be repeated
  -t,--field-separator=SEP     what separates fields; else the step from a non-blank to a blank

What is done:
  -c,--check                   only tell whether the input is sorted, and the first line that is not
                               (--check=diagnose-first)
  -C                           the same without a word (--check=quiet, --check=silent)
  -m,--merge                   only merge files that are sorted
  -o,--output=FILE             write there instead of to standard output; may be an input
  --in-place                   with -o, replace the contents of a file and not the file: its hard
                               links stay, and an error at the end leaves a part
  -s,--stable                  keep the order of lines whose keys are equal
  -u,--unique                  keep only the first of lines whose keys are equal
  -z,--zero-terminated         lines end with NUL, not with a newline
  --files0-from=F              read the files whose names, each ended by NUL, are in F

How it is done:
  -S,--buffer-size=SIZE        the memory to take: K (the default), M, G ..., b for bytes, %
  -T,--temporary-directory=DIR keep runs there, not in $TMPDIR or /tmp; may be repeated
  --parallel=N                 how many threads sort
  --batch-size=N               accepted; the memory decides how many runs are merged at once
  --compress-program=PROG      compress runs, with LZ4 whatever PROG is; without this they are
                               compressed where the disk is slow
  --progress                   tell on standard error how far the sort is
  --no-sync                    do not wait until the output has reached the disk, as GNU sort does
                               not; it still appears whole
  --debug                      underline the keys, and warn of odd ones

  --help                       print this
  --version                    print the version

LC_ALL and its like decide on the order of text; LC_ALL=C compares bytes.
Exit codes: 0 done, or sorted; 1 not sorted (-c, -C); 2 an error.
)",
                     program);
}

}  // namespace vortex::cli
