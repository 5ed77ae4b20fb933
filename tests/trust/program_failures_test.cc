// The programs, and Python's package, of which one system call fails, the n-th of its kind, once or
// from then on, the loader's and the allocator's included; or one allocation.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/environment.h"
#include "tests/support/random_seed.h"
#include "tests/trust/call_tracer.h"
#include "tests/trust/heap_failure.h"
#include "tests/trust/jobs/whole_jobs.h"

namespace vortex::test::program_failures_test { namespace {

// OUT, IN and RUNS stand for paths.
struct Command {
  const char* name;
  const char* program;
  std::vector<const char*> arguments;
  bool lines = true;
  std::size_t bytes = 50'000;
  bool stdin_is_a_pipe = false;
  bool stdout_is_the_output = false;  // which is written in place then
  bool has_output = true;
  unsigned parts = 0;   // that the output has behind OUT
  bool marked = false;  // below each line its key is underlined
};

const Command kCommands[] = {
    {"SmallLines", "vortex-sort", {"IN", "-o", "OUT"}},
    {"LinesWithRuns",
     "vortex-sort",
     {"IN", "-o", "OUT", "-S", "1M", "-T", "RUNS0", "-T", "RUNS1", "--parallel=2"},
     true,
     3 << 20},
    {"LinesFromAPipe", "vortex-sort", {"-o", "OUT"}, true, 50'000, true},
    {"LinesThroughPipes", "vortex-sort", {}, true, 50'000, true, true},
    {"MarkedLines", "vortex-sort", {"--debug", "IN"}, true, 50'000, false, true, true, 0, true},
    {"RecordsWithRuns",
     "vortex",
     {"sort", "--form", "u64", "IN", "-o", "OUT", "-S", "1M", "-T", "RUNS0", "-T", "RUNS1"},
     false,
     3 << 19},
    {"Split",
     "vortex",
     {"split", "--form", "u64", "-n", "3", "IN", "-o", "OUT", "-S", "1M"},
     false,
     1 << 18,
     false,
     false,
     false,
     3},
    {"Python",
     "python",
     {"-c", "import sys, vortex; vortex.sort_file(*sys.argv[1:3], record='lines', memory=1 << 20)",
      "IN", "OUT"},
     true,
     3 << 20},
    {"Check", "vortex-sort", {"-c", "IN"}, true, 20, false, false, false},
};

// What fails, and what an error tells of it.
struct Cause {
  std::string name;
  int error;
};
Cause cause_of(std::size_t kind) { return {kFailingCalls[kind].name, kFailingCalls[kind].error}; }

// What a program shares by tests/trust/program_heap.cc.
class SharedHeap {
 public:
  explicit SharedHeap(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (ftruncate(file, sizeof(HeapFailure)) != 0) throw std::runtime_error("no file of a heap");
    failure_ = static_cast<HeapFailure*>(
        mmap(nullptr, sizeof(HeapFailure), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    setenv("VORTEX_FAILING_HEAP", path.c_str(), 1);
  }
  ~SharedHeap() {
    unsetenv("VORTEX_FAILING_HEAP");
    munmap(failure_, sizeof(HeapFailure));
  }
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  // The program itself arms it, when it begins.
  void plan(std::uint64_t at, bool lasting) noexcept {
    failure_->arm(at, lasting);
    failure_->armed = false;
  }
  std::uint64_t seen() const noexcept { return failure_->seen; }
  bool failed() const noexcept { return failure_->failed != 0; }

 private:
  HeapFailure* failure_;
};

// nanobind takes these for the arguments of the call below, and ends the process without them.
constexpr std::uint64_t kOfArguments = 3;
// Allocations fail in the call alone, not while the interpreter begins or tells of an error.
constexpr const char* kPythonOfFailingHeap = R"(
import os, sys, vortex
heap = os.open(os.environ["VORTEX_FAILING_HEAP"], os.O_WRONLY)
os.pwrite(heap, bytes([1]), 0)
try:
    vortex.sort_file(*sys.argv[1:3], record="lines", memory=1 << 20)
finally:
    os.pwrite(heap, bytes([0]), 0)
)";

class ProgramFailures : public ::testing::TestWithParam<Command> {
 protected:
  void SetUp() override {
    if (const std::string refusal = tracer_.refusal(); !refusal.empty()) {
      END_TEST_WITHOUT(Environment::kSeccomp, refusal);
    }
    const char* const programs = std::getenv("VORTEX_PROGRAMS");
    if (programs == nullptr) {
      ASSERT_FALSE(in_ci()) << "no programs, which must not be left out there";
      GTEST_SKIP() << "VORTEX_PROGRAMS does not name their folder";
    }
    program_ = std::string(programs) + "/" + GetParam().program;
    if (is_python() && !make_package()) GTEST_SKIP() << "the Python package is not built";
    auto random = test_random();
    const Command& command = GetParam();
    place_.add_input(command.lines ? random_lines(command.bytes, random)
                                   : random_numbers(command.bytes / 8, random));
    expected_ = command.lines ? sorted_lines(place_.input()) : sorted_numbers(place_.input());
    if (command.marked) expected_ = marked(expected_);
    std::vector<std::string> words{program_};
    for (const std::string argument : command.arguments) {
      words.push_back(argument == "IN"      ? place_.paths()[0]
                      : argument == "OUT"   ? place_.output()
                      : argument == "RUNS0" ? place_.run_folders()[0]
                      : argument == "RUNS1" ? place_.run_folders()[1]
                                            : argument);
    }
    words_ = std::move(words);
  }

  static bool is_python() { return std::string(GetParam().program) == "python"; }
  // Of the sources and the module, wherever these are.
  bool make_package() {
    const char* const python = std::getenv("VORTEX_PYTHON");
    const char* const sources = std::getenv("VORTEX_PYTHON_SOURCES");
    const char* const core = std::getenv("VORTEX_PYTHON_MODULE");
    if (python == nullptr || sources == nullptr || core == nullptr) return false;
    program_ = python;
    const std::filesystem::path package = outside_.path() / "vortex";
    std::filesystem::create_directory(package);
    for (const auto& entry : std::filesystem::directory_iterator(sources)) {
      create_symlink(entry.path(), package / entry.path().filename());
    }
    const std::filesystem::path module(core);
    create_symlink(module, package / module.filename());
    setenv("PYTHONPATH", outside_.path().c_str(), 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    return true;
  }

  static std::string marked(const std::string& lines) {
    std::string text;
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t bytes = lines.find('\n', at) - at;
      text.append(lines, at, bytes + 1).append(bytes, '_') += '\n';
      at += bytes + 1;
    }
    return text;
  }

  TracedEnd run(const std::vector<std::size_t>& kinds) {
    place_.restore();
    std::unique_ptr<FullPipe> pipe;
    if (GetParam().stdin_is_a_pipe) pipe = std::make_unique<FullPipe>(place_.input());
    const std::string in = pipe ? pipe->path() : "/dev/null";
    const std::string out =
        GetParam().stdout_is_the_output ? place_.output() : outside_.file("stdout");
    return tracer_.run(kinds, [&] {
      std::vector<char*> arguments;
      for (std::string& word : words_) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      const int ends[] = {
          open(in.c_str(), O_RDONLY), open(out.c_str(), O_WRONLY | O_CREAT, 0600),
          open(outside_.file("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600)};
      if (ftruncate(ends[1], 0) != 0) return 97;
      for (int i = 0; i < 3; ++i) dup2(ends[i], i);
      for (const int end : ends) close(end);
      setenv("LC_ALL", "C", 1);
      if (!preloaded_.empty()) setenv("LD_PRELOAD", preloaded_.c_str(), 1);
      tracer_.ledger().armed_by_exec = true;
      execv(program_.c_str(), arguments.data());
      return 96;
    });
  }

  // False: those of this build have none.
  bool take_failing_heap() {
    const char* const folder = std::getenv("VORTEX_FAILING_PROGRAMS");
    const std::string made =
        std::string(folder == nullptr ? "" : folder) +
        (is_python() ? "/libfailing-heap.so" : std::string("/failing-") + GetParam().program);
    if (access(made.c_str(), R_OK) != 0) return false;
    if (is_python()) {
      preloaded_ = made;
      words_[2] = kPythonOfFailingHeap;
    } else {
      program_ = words_[0] = made;
    }
    return true;
  }

  // Parts that are there are whole, all of them where the program has ended well, and go.
  std::string complaint_of_parts(bool ended_well) {
    std::string all;
    unsigned there = 0;
    for (unsigned part = 0; part < GetParam().parts; ++part) {
      const std::string path = place_.output() + ".0000" + std::to_string(part);
      const std::string text = Place::text(path);
      if (unlink(path.c_str()) != 0) continue;
      ++there;
      all += text;
      if (parts_.size() == part) parts_.push_back(text);
      if (parts_[part] != text) return "part " + std::to_string(part) + " is not whole";
    }
    if (!ended_well) return {};
    return there == GetParam().parts && sorted_numbers(all) == expected_ ? "" : "parts are missing";
  }

  // What is wrong with an end; empty: nothing.
  std::string complaint(const TracedEnd& end, const Cause& cause) {
    if (end.hung) return "it hangs\n" + end.waits;
    const std::string told = text_of(outside_.file("stderr"));
    if (!WIFEXITED(end.status)) return "signal " + std::to_string(WTERMSIG(end.status)) + told;
    const int status = WEXITSTATUS(end.status);
    std::string wrong;
    if (GetParam().stdout_is_the_output && status != 0) {
      place_.restore();  // what is written in place may be a part
    }
    if (GetParam().parts != 0) wrong = complaint_of_parts(status == 0);
    if (wrong.empty()) {
      wrong = place_.complaint(status == 0 && GetParam().has_output, expected_,
                               cause.name.starts_with("unlink"));
    }
    if (!wrong.empty()) return wrong + ", status " + std::to_string(status) + ": " + told;
    const bool answers = !GetParam().has_output && GetParam().parts == 0;
    if (status == 0 || (status == 1 && answers)) return {};
    if (status != (is_python() ? 1 : 2)) return "status " + std::to_string(status) + ": " + told;
    if (is_python()) {
      const std::string number = "[Errno " + std::to_string(cause.error) + "]";
      for (const std::string& word : {number, std::string("MemoryError")}) {
        if (told.find(word) != std::string::npos) return {};
      }
    }
    const bool can_tell = cause.name.substr(0, 5) != "write";
    if (can_tell && told.find(std::strerror(cause.error)) == std::string::npos) {
      return "the cause is not told: " + told;
    }
    return {};
  }

  CallTracer tracer_;
  Place place_;
  TemporaryFolder outside_{fast_folder()};
  std::string program_, expected_, preloaded_;
  std::vector<std::string> words_, parts_;
};

TEST_P(ProgramFailures, OfASystemCall) {
  std::vector<std::size_t> all(kCallKinds);
  std::iota(all.begin(), all.end(), std::size_t{0});
  CallLedger& ledger = tracer_.ledger();
  ledger.arm(0, false);
  ledger.disarm();
  ASSERT_EQ(complaint(run(all), cause_of(0)), "");
  std::vector<std::uint64_t> counts;
  for (const auto& count : ledger.seen) counts.push_back(count);
  // What the loader, the heap and the library of C++ ask for before main() is theirs.
  ledger.arm(0, false);
  ledger.disarm();
  const std::vector<std::string> nothing =
      is_python() ? std::vector<std::string>{program_, "-c", "import vortex"}
                  : std::vector<std::string>{program_, "--version"};
  const std::vector<std::string> words = std::exchange(words_, nothing);
  ASSERT_TRUE(run(all).exited_with(0));
  words_ = words;
  std::vector<std::uint64_t> before_main;
  for (const auto& count : ledger.seen) before_main.push_back(count);
  auto random = test_random();
  std::uint64_t injected = 0;
  for (const std::size_t kind : all) {
    // All where it is quick, else a third by chance; the interpreter takes long to begin.
    const bool all_kinds = long_tests() || (GetParam().bytes <= 50'000 && !is_python());
    if (!all_kinds && random() % (is_python() ? 6 : 3) != 0) continue;
    for (const bool lasting : {false, true}) {
      const std::uint64_t step = std::max<std::uint64_t>(counts[kind] / 4, 1);
      const std::uint64_t first = before_main[kind] + 1;
      for (std::uint64_t at = first; counts[kind] >= first;
           at += long_tests() || at < first + 2 ? 1 : 1 + random() % (2 * step)) {
        ledger.arm(at, lasting);
        ledger.disarm();
        ++ledger.steps;
        const TracedEnd end = run({kind});
        EXPECT_EQ(complaint(end, cause_of(kind)), "")
            << GetParam().name << ": " << kFailingCalls[kind].name << ' ' << at
            << (lasting ? " and all later" : "");
        if (ledger.failed == 0) break;
        ++injected;
      }
    }
  }
  std::printf("%llu failures\n", static_cast<unsigned long long>(injected));
}

// What threads, the C library and the library of C++ take included.
TEST_P(ProgramFailures, OfAnAllocation) {
  if (!take_failing_heap()) {
    ASSERT_FALSE(in_ci()) << "no failing heap, which must not be left out there";
    GTEST_SKIP() << "no program has a heap that fails";
  }
  SharedHeap heap(outside_.file("heap"));
  const Cause cause{"allocation", ENOMEM};
  heap.plan(0, false);
  ASSERT_EQ(complaint(run({}), cause), "");
  const std::uint64_t some = is_python() ? 6 : GetParam().bytes <= 50'000 ? 60 : 20;
  const std::uint64_t step = std::max<std::uint64_t>(heap.seen() / some, 1);
  std::printf("%llu allocations\n", static_cast<unsigned long long>(heap.seen()));
  auto random = test_random();
  std::uint64_t injected = 0;
  for (const bool lasting : {false, true}) {
    const std::uint64_t first = is_python() ? kOfArguments + 1 : 1;
    for (std::uint64_t at = first;;
         at += long_tests() || at < first + 2 ? 1 : 1 + random() % (2 * step)) {
      heap.plan(at, lasting);
      ++tracer_.ledger().steps;
      EXPECT_EQ(complaint(run({}), cause), "")
          << GetParam().name << ": allocation " << at << (lasting ? " and all later" : "");
      if (!heap.failed()) break;
      ++injected;
    }
  }
  std::printf("%llu failures\n", static_cast<unsigned long long>(injected));
}

INSTANTIATE_TEST_SUITE_P(Programs, ProgramFailures, testing::ValuesIn(kCommands),
                         [](const auto& command) { return command.param.name; });

}  // namespace

}  // namespace vortex::test::program_failures_test
