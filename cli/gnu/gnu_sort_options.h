// The command line of GNU sort.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/verbs/verbs.h"
#include "vortex/line_key.h"

namespace vortex::cli {

struct GnuSortOptions {
  enum class Action : std::uint8_t { kSort, kMerge, kCheck, kCheckQuietly, kHelp, kVersion };

  Action action = Action::kSort;
  LineKeyOptions keys;
  std::optional<std::string> random_source;  // none: the system's
  std::vector<std::string> inputs;           // "-" is standard input
  std::optional<std::string> output;         // none: standard output
  std::vector<std::string> folders;          // empty: $TMPDIR or /tmp
  std::uint64_t memory_bytes = 0;            // 0: the library's choice
  unsigned threads = 0;                      // 0: the library's choice
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

// The text of --help.
std::string gnu_sort_help(const char* program);

}  // namespace vortex::cli
