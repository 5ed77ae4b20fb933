// The command line of GNU sort.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs/verbs.h"
#include "vortex/line_sort.h"

namespace vortex::cli {

struct GnuSortOptions {
  enum class Action : std::uint8_t { kSort, kMerge, kCheck, kCheckQuietly, kHelp, kVersion };

  Action action = Action::kSort;
  LineKeyOptions keys;
  std::optional<std::string> random_source;   // none: the system's
  std::vector<std::string> inputs;            // "-" is standard input
  std::optional<std::string> output;          // none: standard output
  std::vector<std::string> folders;           // empty: $TMPDIR or /tmp
  std::optional<std::uint64_t> memory_bytes;  // none: the library's choice
  unsigned threads = 0;                       // 0: the library's choice
  std::uint64_t first_lines = 0;              // 0: all
  bool zero_terminated = false;
  bool compress_runs = false;  // always
  bool in_place = false;
  bool progress = false;
  bool debug = false;
  bool sync = true;
};

// A command line that is wrong. what() is the message, without the program's name.
class UsageError : public std::runtime_error {
 public:
  // `look_at_help`: the next line points to --help. `code`: the exit code.
  explicit UsageError(const std::string& message, bool look_at_help = false, int code = kExitError)
      : std::runtime_error(message), look_at_help(look_at_help), code(code) {}

  const bool look_at_help;
  const int code;
};

// Reads the arguments, and the file of --files0-from. Long options may be cut short. Throws
// UsageError, with an empty message when getopt has printed one, or Error.
GnuSortOptions parse_gnu_sort_options(int argc, char** argv);

// These read the arguments of options, and throw UsageError for what is wrong with one.

// Reads a number without a suffix; one that is too large is the largest.
std::uint64_t parse_count(std::string_view text, const char* option);

// Reads a size: KiB without a unit, bytes with b, percent of the memory with %, else powers of
// 1024. The size stood behind `option`.
std::uint64_t parse_memory(std::string_view text, const char* option);

// Reads the byte that separates fields.
char parse_separator(std::string_view text);

// Return the letters that mean the same as the words of --check and --sort, which may be cut short
// where that leaves one meaning.
char parse_check_word(std::string_view text);
char parse_sort_word(std::string_view text);

// Returns the names in a file of --files0-from, each ended by NUL; "-" is standard input.
std::vector<std::string> read_names(const std::string& path);

// The text of --help.
std::string gnu_sort_help(const char* program);

}  // namespace vortex::cli
