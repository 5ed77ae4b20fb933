// Sorting lines that are longer in all than the memory given: ours and GNU sort's, LC_ALL=C but for
// the last rows.
//
//   random      10 to 200 printable bytes
//   words       as words of text are spread, a few of them often
//   urls        with long common prefixes
//   integers    compared as numbers (-n)
//   third       tab-separated, by the third field (-t TAB -k3,3)
//   unique      words, each once (-u)
//   sorted, reversed, nearly_sorted, drifting, appended
//               40 bytes that begin with a number, see bench/support/arrivals.h
//   *_fits      the same lines in four times as much memory
//   *_locale    the same by the rules of a locale; skipped where the system lacks it
//
//   size_BYTES  whole processes on a file in the page cache, of 0 bytes to 100 MB, that write a
//   file
//               or a pipe: vortex-sort, which syncs its output, the same with --no-sync, GNU sort,
//               which does not sync, and uutils' sort where a program `coreutils` is on PATH
//               (cargo install coreutils --no-default-features --features sort)
//
// Every other row reads the input from the disk, writes runs, and writes and syncs the output; the
// peers have as many threads (--parallel=2) and as much memory (-S). The page cache is dropped
// before every row where the system permits. The outputs are compared. `of_bound` is the share of
// the least time that the disk needs, whose speed is measured before and behind each sort;
// `of_longest` the time against the longest of reading, writing and what the threads work; `moved`
// what the disks move for each byte of the input; `faults` those served.
//
// Options before those of Google Benchmark: --folder=DIR (decides the disk), --mib=N of input
// (1024), --memory-mib=N (128), --rounds=N (3), --locale=NAME (en_US.UTF-8), --give-up=SECONDS
// (never), after which a peer is ended: its row counts as so long, and shows `gave_up`.
// --peer=PROGRAM is one that takes GNU sort's options, for a row of its own: uutils' sort, or
// bench/duckdb_sort.py.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/support/arrivals.h"
#include "bench/support/disk_speed.h"
#include "bench/support/made_lines.h"
#include "bench/support/own_options.h"
#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "bench/support/sort_settings.h"
#include "bench/support/sort_sizes.h"
#include "vortex/disk.h"
#include "vortex/error.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/file_reader.h"
#include "vortex/line_sort.h"

namespace vortex { namespace {

using bench::Arrival;
using bench::kMiB;

bench::SortSettings settings;
std::string locale = "en_US.UTF-8";
std::string peer;
std::string give_up;  // in seconds; empty: never

std::string path_of(const std::string& name) { return settings.folder + "/sort_lines." + name; }

// Appends line `i`, without its end.
using MakeLine = void (*)(std::uint64_t i, std::string& text);

template <Arrival kArrival>
void arriving_line(std::uint64_t i, std::string& text) {
  constexpr std::size_t kBytes = 40, kDigits = 16;
  // What is written at a time may go beyond the input's length.
  const std::uint64_t lines = (settings.input_bytes + kMiB) / kBytes + 1;
  const std::uint64_t key = bench::arriving_key(kArrival, i, lines);
  for (std::size_t digit = kDigits; digit > 0; --digit) {
    text += "0123456789abcdef"[key >> (4 * (digit - 1)) & 15];
  }
  bench::append_letters(mix_bits(i), kBytes - kDigits - 1, text);
}

struct Case {
  const char* name;
  const char* input;  // shared by cases
  MakeLine line;
  LineKeyOptions order;
  std::vector<const char*> gnu_options;
  bool in_locale = false;
  bool fits = false;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    LineKeyOptions plain;
    LineKeyOptions numbers;
    numbers.letters.push_back('n');
    LineKeyOptions third;
    third.keys = {"3,3"};
    third.separator = '\t';
    LineKeyOptions unique;
    unique.unique = true;
    return std::vector<Case>{
        {"random", "random", bench::random_line, plain, {}},
        {"words", "words", bench::word_line, plain, {}},
        {"urls", "urls", bench::url_line, plain, {}},
        {"integers", "integers", bench::integer_line, numbers, {"-n"}},
        {"third", "third", bench::fields_line, third, {"-t", "\t", "-k3,3"}},
        {"unique", "words", bench::word_line, unique, {"-u"}},
        {"sorted", "sorted", arriving_line<Arrival::kSorted>, plain, {}},
        {"reversed", "reversed", arriving_line<Arrival::kReversed>, plain, {}},
        {"nearly_sorted", "nearly_sorted", arriving_line<Arrival::kNearlySorted>, plain, {}},
        {"drifting", "drifting", arriving_line<Arrival::kDrifting>, plain, {}},
        {"appended", "appended", arriving_line<Arrival::kAppended>, plain, {}},
        {"random_fits", "random", bench::random_line, plain, {}, false, true},
        {"words_fits", "words", bench::word_line, plain, {}, false, true},
        {"random_locale", "random", bench::random_line, plain, {}, true},
        {"words_locale", "words", bench::word_line, plain, {}, true},
        {"urls_locale", "urls", bench::url_line, plain, {}, true},
    };
  }();
  return all;
}

// Null, and the row is skipped: the system lacks it.
std::unique_ptr<LineOrder> order_of(benchmark::State& state, const Case& one) {
  LineKeyOptions order = one.order;
  if (one.in_locale) order.locale = locale;
  try {
    return std::make_unique<LineOrder>(line_order(order));
  } catch (const Error& error) {
    if (!one.in_locale) throw;
    state.SkipWithError((std::string(error.what()) + "; localedef makes it").c_str());
    return nullptr;
  }
}

std::string input_of(const Case& one) { return path_of(std::string(one.input) + ".in"); }

// Made when the first row wants it.
void make_input(const Case& one) {
  if (access(input_of(one).c_str(), F_OK) == 0) return;
  std::ofstream file(input_of(one), std::ios::binary);
  std::string text;
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; bytes < settings.input_bytes; ++i) {
    one.line(i, text);
    text += '\n';
    if (text.size() < kMiB) continue;
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    bytes += std::exchange(text, {}).size();
  }
}

void sort_with_vortex(benchmark::State& state, const Case& one) {
  const std::unique_ptr<LineOrder> order = order_of(state, one);
  if (order == nullptr) return;
  make_input(one);
  for (auto _ : state) {
    LineSortOptions options;
    options.inputs = {input_of(one)};
    options.output = path_of(std::string(one.name) + ".out");
    options.order = *order;
    options.resources.memory_bytes = settings.memory_of(one.fits);
    options.resources.folders = {settings.folder};
    options.resources.threads = 2;
    const bench::DiskAround disk(settings.folder);
    bench::drop_page_cache();
    SortReport report;
    const auto faults = [] { return FaultDispatcher::instance().statistics().served; };
    const std::uint64_t faults_before = faults();
    const double seconds = bench::seconds_of([&] { report = sort_lines(options); });
    state.SetIterationTime(seconds);
    state.counters["faults"] = static_cast<double>(faults() - faults_before);
    state.counters["moved"] =
        static_cast<double>(report.io_bytes()) / static_cast<double>(report.input_bytes);
    const double least = disk.seconds(
        {report.input_bytes, report.runs == 0 ? 0 : report.run_bytes, report.output_bytes});
    state.counters["of_bound"] = least / seconds;
    state.counters["of_longest"] = bench::of_longest(report);
    state.counters["cpu_s"] = report.cpu_seconds;
    state.counters["runs"] = static_cast<double>(report.runs);
    state.counters["passes"] = report.passes;
    state.counters["forming_s"] = report.run_formation_seconds;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(settings.input_bytes));
}

enum class Ended { kSorted, kFailed, kGaveUp };

// `program` takes GNU sort's options.
Ended run_peer(const std::string& program, const Case& one, const std::string& output) {
  constexpr int kTimedOut = 124;  // as timeout(1) tells it
  const std::string memory = std::to_string(settings.memory_of(one.fits) / 1024) + "K";
  const std::string input = input_of(one);
  std::vector<const char*> arguments;
  if (!give_up.empty()) arguments = {"timeout", give_up.c_str()};
  arguments.insert(arguments.end(), {program.c_str(), "--parallel=2", "-S", memory.c_str(), "-T",
                                     settings.folder.c_str(), "-o", output.c_str()});
  arguments.insert(arguments.end(), one.gnu_options.begin(), one.gnu_options.end());
  arguments.push_back(input.c_str());
  arguments.push_back(nullptr);
  const std::string rules = "LC_ALL=" + (one.in_locale ? locale : "C");
  std::vector<const char*> variables = {rules.c_str()};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).substr(0, 7) != "LC_ALL=") variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  pid_t child = 0;
  int status =
      posix_spawnp(&child, arguments[0], nullptr, nullptr, const_cast<char**>(arguments.data()),
                   const_cast<char**>(variables.data()));
  if (status != 0 || waitpid(child, &status, 0) != child) return Ended::kFailed;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kTimedOut && !give_up.empty()) {
    return Ended::kGaveUp;
  }
  if (status != 0) return Ended::kFailed;
  const int file = open(output.c_str(), O_RDONLY | O_CLOEXEC);
  fsync(file);
  close(file);
  return Ended::kSorted;
}

// Whether two files hold the same; both have been synced, and are in the page cache or not.
bool same(const std::string& a, const std::string& b) {
  FileReader<char> left(a);
  FileReader<char> right(b);
  return std::string_view(left.data(), left.size()) == std::string_view(right.data(), right.size());
}

void sort_with(const std::string& program, benchmark::State& state, const Case& one) {
  if (order_of(state, one) == nullptr) return;
  make_input(one);
  const std::string output = path_of("peer");
  const std::string ours = path_of(std::string(one.name) + ".out");
  Ended ended = Ended::kFailed;
  for (auto _ : state) {
    bench::drop_page_cache();
    state.SetIterationTime(bench::seconds_of([&] { ended = run_peer(program, one, output); }));
  }
  if (ended == Ended::kFailed) {
    state.SkipWithError((program + " failed").c_str());
  } else if (ended == Ended::kGaveUp) {
    state.counters["gave_up"] = 1;
  } else if (access(ours.c_str(), F_OK) == 0 && !same(ours, output)) {
    state.SkipWithError("the outputs are not the same");
  }
  unlink(output.c_str());
  state.SetBytesProcessed(static_cast<std::int64_t>(settings.input_bytes));
}
void sort_with_gnu(benchmark::State& state, const Case& one) { sort_with("sort", state, one); }
void sort_with_peer(benchmark::State& state, const Case& one) { sort_with(peer, state, one); }

void add_rows(const Case& one, std::vector<bench::Ratio>& ratios) {
  const auto add = [&](const char* sorter, auto* function) {
    bench::add_row(std::string(one.name) + "/" + sorter,
                   [function, &one](benchmark::State& state) { function(state, one); });
  };
  add("vortex", sort_with_vortex);
  add("gnu_sort", sort_with_gnu);
  if (!peer.empty()) add("peer", sort_with_peer);
  const auto shown = [&](const char* sorter) {
    return bench::shown(std::string(one.name) + "/" + sorter);
  };
  ratios.push_back(
      {std::string(one.name) + ": vortex against GNU sort", shown("vortex"), shown("gnu_sort")});
  ratios.push_back(
      {std::string(one.name) + ": vortex against the peer", shown("vortex"), shown("peer")});
}

void remove_files() {
  for (const Case& one : cases()) {
    unlink(input_of(one).c_str());
    unlink(path_of(std::string(one.name) + ".out").c_str());
  }
}

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  using namespace vortex;
  bench::OwnOptions own = settings.options();
  own["--locale="] = bench::text(locale);
  own["--peer="] = bench::text(peer);
  own["--give-up="] = bench::text(give_up);
  const std::vector<std::string> arguments = bench::benchmark_arguments(argc, argv, own, "3");
  std::vector<bench::Ratio> ratios;
  const std::string ours = bench::built_program("vortex-sort");
  std::vector<bench::SortSizes::Program> programs = {
      {"vortex", {ours}}, {"vortex_no_sync", {ours, "--no-sync"}}, {"gnu_sort", {"sort"}}};
  if (bench::is_on_path("coreutils")) programs.push_back({"uutils", {"coreutils", "sort"}});
  bench::SortSizes sizes(settings.folder, std::move(programs));
  remove_files();
  for (const Case& one : cases()) add_rows(one, ratios);
  sizes.add_rows();
  const int result = bench::run_with_ratios(arguments, ratios);
  remove_files();
  sizes.remove_files();
  return result;
}
