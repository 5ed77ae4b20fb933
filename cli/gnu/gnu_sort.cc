// The program `vortex-sort`, which understands the command line of GNU sort.
#include <fmt/format.h>
#include <locale.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/common/byte_size.h"
#include "cli/common/environment_order.h"
#include "cli/common/error_message.h"
#include "cli/common/folder_speeds.h"
#include "cli/common/interrupt.h"
#include "cli/common/process.h"
#include "cli/common/progress_line.h"
#include "cli/gnu/gnu_sort_options.h"
#include "cli/gnu/key_warnings.h"
#include "cli/gnu/marked_output.h"
#include "cli/verbs/verbs.h"
#include "vortex/error.h"
#include "vortex/line_sort.h"
#include "vortex/version.h"

namespace vortex::cli { namespace {

using Action = GnuSortOptions::Action;

// Scripts that ask for less want little memory, not an error. GNU sort takes more, too, where a
// line needs it; this has room for one of a MiB and its key.
constexpr std::uint64_t kMinMemoryBytes = std::uint64_t{8} << 20;

bool checks(const GnuSortOptions& options) {
  return options.action == Action::kCheck || options.action == Action::kCheckQuietly;
}

// No file has an empty name: the value of a variable that is not set, mostly.
[[noreturn]] void refuse_to_open(const std::string& name) {
  throw UsageError(fmt::format("open failed: {}: {}", name.empty() ? "''" : printable(name),
                               std::strerror(errno)));
}

std::array<char, 16> random_seed(const std::optional<std::string>& source) {
  if (!source) return system_random_seed();
  std::array<char, 16> seed{};
  std::ifstream file(*source, std::ios::binary);
  if (!file) refuse_to_open(*source);
  if (!file.read(seed.data(), seed.size()))
    throw UsageError(fmt::format("'{}': end of file", printable(*source)));
  return seed;
}

// A key with letters of its own has none of those of the command line.
bool is_random(const LineKeyOptions& keys) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  bool random = keys.keys.empty() && keys.letters.find('R') != std::string::npos;
  for (const std::string& key : keys.keys) {
    const std::string& letters = std::ranges::any_of(key, is_letter) ? key : keys.letters;
    random |= letters.find('R') != std::string::npos;
  }
  return random;
}

// Standard input has ended when it is read for the second time.
std::vector<std::string> inputs_to_read(const std::vector<std::string>& named) {
  std::vector<std::string> inputs;
  bool standard_input_read = false;
  for (const std::string& name : named) {
    if (name == "-" && standard_input_read) continue;
    standard_input_read |= name == "-";
    inputs.push_back(name);
  }
  return inputs;
}

// GNU sort takes a hyphen behind -o for the name of a file.
std::string output_path(const std::optional<std::string>& named) {
  if (!named) return "-";
  if (named->empty()) {
    errno = ENOENT;
    refuse_to_open(*named);
  }
  return *named == "-" ? "./-" : *named;
}

void expect_readable(const std::vector<std::string>& inputs, const char* problem) {
  for (const std::string& name : inputs) {
    if (name == "-" || euidaccess(name.c_str(), R_OK) == 0) continue;
    throw UsageError(fmt::format("{}: {}: {}", problem, name.empty() ? "''" : printable(name),
                                 std::strerror(errno)));
  }
}

// Messages may have several lines.
void print_error(const char* program, std::string_view message) {
  std::fprintf(stderr, "%s: %.*s\n", program, static_cast<int>(message.size()), message.data());
}

// The locale of the environment, or "C" where that is not installed.
class DebugLocale {
 public:
  DebugLocale() : locale_(newlocale(LC_ALL_MASK, "", nullptr)), failed_(locale_ == nullptr) {
    if (failed_) locale_ = newlocale(LC_ALL_MASK, "C", nullptr);
  }
  ~DebugLocale() { freelocale(locale_); }
  DebugLocale(const DebugLocale&) = delete;
  DebugLocale& operator=(const DebugLocale&) = delete;

  bool failed() const noexcept { return failed_; }
  ::locale_t handle() const noexcept { return locale_; }
  // The options, in this locale.
  LineKeyOptions in_locale(LineKeyOptions keys) const {
    keys.locale = failed_ ? "C" : "";
    return keys;
  }

 private:
  ::locale_t locale_;
  bool failed_;
};

void warn_of_keys(const GnuSortOptions& options, const char* program) {
  if (checks(options) || options.output) {
    const char letter = !checks(options)                          ? 'o'
                        : options.action == Action::kCheckQuietly ? 'C'
                                                                  : 'c';
    throw UsageError(fmt::format("options '-{} --debug' are incompatible", letter));
  }
  const DebugLocale locale;
  for (const std::string& warning :
       key_warnings(locale.in_locale(options.keys), locale.handle(), locale.failed())) {
    print_error(program, warning);
  }
}

LineSortOptions line_sort_options(const GnuSortOptions& options, const char* program) {
  LineKeyOptions keys = options.keys;
  if (is_random(keys)) keys.random_seed = random_seed(options.random_source);
  LineSortOptions what;
  what.order = order_in_locale_of_environment(keys);
  if (options.debug) warn_of_keys(options, program);
  what.inputs = inputs_to_read(options.inputs);
  expect_readable(what.inputs, checks(options) ? "open failed" : "cannot read");
  what.output = output_path(options.output);
  what.framing = RecordFraming::delimited(options.zero_terminated ? '\0' : '\n');
  what.merge_inputs = options.action == Action::kMerge;
  if (options.memory_bytes) {
    what.resources.memory_bytes = std::max(
        std::min(*options.memory_bytes, most_memory_bytes(memory_limits())), kMinMemoryBytes);
  }
  what.resources.threads = options.threads;
  what.resources.first_records = options.first_lines;
  what.resources.output_in_place = options.in_place ? InPlace::kAlways : InPlace::kWhereNeeded;
  what.resources.sync = options.sync;
  what.resources.folders = options.folders;
  if (options.compress_runs) what.resources.compression = RunCompression::kAlways;
  if (what.resources.folders.empty()) what.resources.folders.push_back(temporary_folder());
  return what;
}

// Whoever reads it next finds the end, as behind GNU sort.
void go_to_end_of_standard_input(const std::vector<std::string>& inputs) noexcept {
  if (std::ranges::find(inputs, "-") != inputs.end()) lseek(STDIN_FILENO, 0, SEEK_END);
}

// "FILE:LINE: disorder: TEXT", the text and its end as they are, for scripts.
void tell(const LineDisorder& disorder, const char* program, char delimiter) {
  std::string line = fmt::format("{}: {}:{}: disorder: ", program, disorder.input, disorder.record);
  line += disorder.text;
  line += delimiter;
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int run(const GnuSortOptions& options, const char* program) {
  if (options.action == Action::kHelp) {
    fmt::print("{}", gnu_sort_help(program));
    return kExitGood;
  }
  if (options.action == Action::kVersion) {
    fmt::print("vortex-sort (vortex) {}\n", VORTEX_VERSION_STRING);
    return kExitGood;
  }
  LineSortOptions what = line_sort_options(options, program);
  Interrupt interrupt;
  const auto prepare = [&](SortResources& resources) {
    allow_many_open_files();
    resources.stop = interrupt.start();
  };
  // A signal ends a sort that is over before its threads as it ends any process. What shows keys
  // starts a thread itself.
  if (checks(options) || options.debug) {
    prepare(what.resources);
  } else {
    what.before_threads = prepare;
  }
  return interrupt.end_process_or([&] {
    if (!checks(options)) {
      std::optional<DebugLocale> locale;
      std::optional<MarkedOutput> marked;
      if (options.debug) {
        locale.emplace();
        marked.emplace(KeyMarks(locale->in_locale(options.keys), locale->handle()),
                       what.framing.delimiter());
      }
      ProgressLine line(program, options.progress, true);
      if (line.wanted()) {
        what.resources.progress = [&line](const SortProgress& now) { line.show(now); };
      }
      try {
        sort_lines(what);
      } catch (const std::exception& error) {
        // What keeps lines from being passed on is why the sort cannot write them.
        if (marked && errno_of(error, 0) == EPIPE) marked->finish();
        throw;
      }
      go_to_end_of_standard_input(what.inputs);
      line.finish();
      if (marked) marked->finish();
      return kExitGood;
    }
    const std::optional<LineDisorder> disorder = check_lines(what);
    go_to_end_of_standard_input(what.inputs);
    if (!disorder) return kExitGood;
    if (options.action == Action::kCheck) tell(*disorder, program, what.framing.delimiter());
    return kExitNotSorted;
  });
}

int parse_and_run(int argc, char** argv, const char* program) noexcept {
  try {
    const int code = run(parse_gnu_sort_options(argc, argv), program);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "stdout");
    return code;
  } catch (const UsageError& error) {
    if (*error.what() != '\0') print_error(program, error.what());
    if (error.look_at_help) {
      std::fprintf(stderr, "Try '%s --help' for more information.\n", program);
    }
    return error.code;
  } catch (const std::exception& exception) {
    end_process_at_broken_pipe(exception);
    tell_error(program, exception, "; -S says how much memory is taken");
  }
  return kExitError;
}

}  // namespace

}  // namespace vortex::cli

// Sorts, merges or checks as the arguments say. The exit code is GNU sort's: 0, 1 for what is not
// sorted, 2 for an error, which is told on stderr behind the program's name as it was called.
int main(int argc, char** argv) {
  vortex::cli::occupy_closed_standard_descriptors(true);
  const char* const program = argc > 0 ? argv[0] : "vortex-sort";
  const int code = vortex::cli::parse_and_run(argc, argv, program);
  // A message that could not be written is an error, as a line that could not be written is.
  return std::ferror(stderr) != 0 ? vortex::cli::kExitError : code;
}
