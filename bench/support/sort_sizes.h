// Whole processes that sort lines, from no bytes to a hundred megabytes: what a shell waits for.
#pragma once

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/support/ratios.h"
#include "io/sequence/seeded_random.h"

namespace vortex::bench {

// Rows `size_BYTES/WHO/OUTPUT`, in the environment's locale set to C, files in the page cache. Each
// process is run some times; the row is the median of these.
class SortSizes {
 public:
  struct Program {
    std::string who;                     // in the row
    std::vector<std::string> arguments;  // in front of those of GNU sort
  };

  SortSizes(std::string folder, std::vector<Program> programs)
      : folder_(std::move(folder)), programs_(std::move(programs)) {}

  void add_rows() {
    for (const std::uint64_t bytes : kSizes) {
      for (const bool to_pipe : {false, true}) {
        for (const Program& program : programs_) {
          add_row(
              "size_" + std::to_string(bytes) + "/" + program.who + (to_pipe ? "/pipe" : "/file"),
              [this, &program, bytes, to_pipe](benchmark::State& state) {
                run(state, program, bytes, to_pipe);
              });
        }
      }
    }
  }

  void remove_files() const {
    for (const std::uint64_t bytes : kSizes) unlink(input(bytes).c_str());
    unlink(output().c_str());
  }

 private:
  static constexpr std::uint64_t kSizes[] = {
      0, 10, 1'000, 10'000, 100'000, 1'000'000, 3'000'000, 10'000'000, 30'000'000, 100'000'000};

  std::string input(std::uint64_t bytes) const {
    return folder_ + "/sort_lines.size_" + std::to_string(bytes);
  }
  std::string output() const { return folder_ + "/sort_lines.size_out"; }

  void make_input(std::uint64_t bytes) const {
    if (access(input(bytes).c_str(), F_OK) == 0) return;
    std::string text;
    for (std::uint64_t i = 0; text.size() < bytes; ++i) {
      text += std::to_string(mix_bits(i) % 1'000'000'000'000);
      text += "\tline ";
      text += std::to_string(i);
      text += '\n';
    }
    text.resize(static_cast<std::size_t>(bytes));
    std::ofstream(input(bytes), std::ios::binary) << text;
  }

  // In milliseconds; below 0: it failed.
  double time_of(const Program& program, std::uint64_t bytes, bool to_pipe) const {
    std::vector<std::string> arguments = program.arguments;
    const std::string in = input(bytes);
    const std::string out = output();
    arguments.push_back(in);
    if (!to_pipe) arguments.insert(arguments.end(), {"-o", out});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const auto begin = std::chrono::steady_clock::now();
    pid_t child = 0;
    int status = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::vector<char> batch(std::size_t{256} << 10);
    while (status == 0 && read(ends[0], batch.data(), batch.size()) > 0) {
    }
    close(ends[0]);
    if (status != 0 || waitpid(child, &status, 0) != child || status != 0) return -1;
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  void run(benchmark::State& state, const Program& program, std::uint64_t bytes,
           bool to_pipe) const {
    make_input(bytes);
    setenv("LC_ALL", "C", 1);
    for (auto _ : state) {
      std::vector<double> times;
      for (std::uint64_t i = 0; i < 3 + 30 / (1 + bytes / 1'000'000); ++i) {
        times.push_back(time_of(program, bytes, to_pipe));
      }
      std::sort(times.begin(), times.end());
      if (times.front() < 0) return state.SkipWithError((program.who + " failed").c_str());
      state.SetIterationTime(times[times.size() / 2] / 1e3);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  }

  const std::string folder_;
  const std::vector<Program> programs_;
};

// The program of that name beside this one's folder, or, if it is not there, on PATH.
inline std::string built_program(const std::string& name) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path beside = self.parent_path().parent_path() / "cli" / name;
  return std::filesystem::exists(beside) ? beside.string() : name;
}

// Whether a shell would find it.
inline bool is_on_path(const std::string& name) {
  const char* const variable = std::getenv("PATH");
  std::string folders = variable == nullptr ? "" : variable;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    if (access((folders.substr(at, end - at) + "/" + name).c_str(), X_OK) == 0) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace vortex::bench
