#include "cli/gnu/gnu_sort_options.h"

#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "cli/common/suggestion.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"
#include "vortex/sort_resources.h"

namespace vortex::cli {

namespace {

// getopt_long() returns these for operands, and for long options without a letter.
enum : int {
  kOperand = 1,
  kBatchSize = 256,
  kCheck,
  kCompressProgram,
  kDebug,
  kFiles0From,
  kFirst,
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
    {"first", required_argument, nullptr, kFirst},
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

// Returns the option that may have been meant where getopt has told of an argument that it does not
// know; nothing where none is near.
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
  bool take_switch(int letter);
  void take_order(int letter, const char* argument);
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
  std::optional<std::string> compress_program_;
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
      take_check(argument == nullptr ? 'c' : parse_check_word(argument));
      break;
    case 'o':
      take_once(options_.output, argument, "multiple output files specified");
      break;
    case kRandomSource:
      take_once(options_.random_source, argument, "multiple random sources specified");
      break;
    case kCompressProgram:  // LZ4, whatever its argument
      take_once(compress_program_, argument, "multiple compress programs specified");
      options_.compress_runs = true;
      break;
    case 'T':
      options_.folders.emplace_back(argument);
      break;
    case kFiles0From:
      names_file_ = argument;
      break;
    case 'S':
      options_.memory_bytes = std::max(options_.memory_bytes.value_or(0),
                                       parse_memory(argument, is_long ? "--buffer-size" : "-S"));
      break;
    case kBatchSize:
      // How many runs are merged at once is the plan's business.
      if (parse_count(argument, "--batch-size") < 2) {
        throw UsageError(fmt::format("invalid --batch-size argument '{}': the minimum is '2'",
                                     printable(argument)));
      }
      break;
    case kParallel: {
      const std::uint64_t threads = parse_count(argument, "--parallel");
      if (threads == 0) throw UsageError("number in parallel must be nonzero");
      options_.threads = static_cast<unsigned>(std::min<std::uint64_t>(threads, kMaxSortThreads));
      break;
    }
    case kFirst:
      options_.first_lines = parse_count(argument, "--first");
      if (options_.first_lines == 0) throw UsageError("number of first lines must be nonzero");
      break;
    case 'y':  // of Solaris, and without a meaning here
      // An argument of its own that is no number is the next operand.
      if (argument == argv_[optind - 1] && argument[std::strspn(argument, "0123456789")] != '\0') {
        --optind;
      }
      break;
    default:
      if (!take_switch(letter)) take_order(letter, argument);
      break;
  }
}

// Options without an argument that are there or not. False: it is none of these.
bool Parser::take_switch(int letter) {
  switch (letter) {
    case 'm':
      return merge_ = true;
    case 'z':
      return options_.zero_terminated = true;
    case kDebug:
      return options_.debug = true;
    case kInPlace:
      return options_.in_place = true;
    case kProgress:
      return options_.progress = true;
    case kNoSync:
      options_.sync = false;
      return true;
    case kHelp:
      options_.action = Action::kHelp;
      return true;
    case kVersion:
      options_.action = Action::kVersion;
      return true;
    default:
      return false;
  }
}

// Takes the options that the order of lines depends on.
void Parser::take_order(int letter, const char* argument) {
  switch (letter) {
    case 'k':
      expect_line_key(argument);  // what is wrong with it is told before what follows
      options_.keys.keys.emplace_back(argument);
      break;
    case kSort:
      options_.keys.letters += parse_sort_word(argument);
      break;
    case 's':
      options_.keys.stable = true;
      break;
    case 't': {
      const char separator = parse_separator(argument);
      if (options_.keys.separator.value_or(separator) != separator) {
        throw UsageError("incompatible tabs");
      }
      options_.keys.separator = separator;
      break;
    }
    case 'u':
      options_.keys.unique = true;
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
        "'{}': keys of the form +1 -2 are not there; write -k 2,2 for it, or ./{} for a file",
        printable(text), printable(text)));
  }
  operands_.emplace_back(operand);
}

void Parser::take_inputs() {
  if (names_file_) {
    if (!operands_.empty()) {
      throw UsageError(fmt::format("extra operand '{}'\nfile operands cannot be combined with "
                                   "--files0-from",
                                   printable(operands_.front())),
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
    throw UsageError(fmt::format("extra operand '{}' not allowed with -{}",
                                 printable(options_.inputs[1]), check_));
  }
  if (options_.output) {
    throw UsageError(fmt::format("options '-{}o' are incompatible", check_));
  }
  if (options_.first_lines != 0) {
    throw UsageError(fmt::format("options '-{} --first' are incompatible", check_));
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

}  // namespace vortex::cli
