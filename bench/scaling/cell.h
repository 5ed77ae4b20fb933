// One cell of a table of scaling: a kind of work, done by a number of threads.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bench/support/process_time.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"

namespace vortex::bench {

struct Cell {
  std::string kind;
  unsigned threads = 1;
  std::uint64_t bytes = std::uint64_t{1} << 20;  // of the data
  std::uint64_t memory_bytes = 0;                // of a sort of files
  std::string folder = ".";                      // of files
  std::string place = {};    // what the table calls the folder, "tmpfs" or "disk"
  unsigned rounds = 3;       // at most
  double cheap_seconds = 4;  // further rounds begin while all so far have taken less
};

struct Result {
  std::uint64_t bytes = 0;               // that a round worked on
  std::uint64_t items = 0;               // 0: they are not counted
  std::vector<double> seconds = {};      // of each round
  nlohmann::ordered_json counters = {};  // of the last one

  // Does the work once more and notes its time and what the kernel counted of the process.
  template <typename Work>
  void time(Work work) {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    seconds.push_back(seconds_of(work));
    getrusage(RUSAGE_SELF, &after);
    const auto seconds_of_time = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    const double user = seconds_of_time(after.ru_utime) - seconds_of_time(before.ru_utime);
    const double system = seconds_of_time(after.ru_stime) - seconds_of_time(before.ru_stime);
    counters["cpu_s"] = user + system;
    counters["system_s"] = system;
    counters["faults"] = after.ru_minflt - before.ru_minflt;
    counters["waits"] = after.ru_nvcsw - before.ru_nvcsw;
    counters["preempted"] = after.ru_nivcsw - before.ru_nivcsw;
  }
};

// Calls round() as often as the cell wants it; it calls Result::time() once.
template <typename Round>
void in_rounds(const Cell& cell, const Result& result, Round round) {
  for (unsigned i = 0; i < cell.rounds; ++i) {
    const double so_far = std::accumulate(result.seconds.begin(), result.seconds.end(), 0.0);
    if (i > 0 && so_far >= cell.cheap_seconds) return;
    round();
  }
}

// Calls work(begin, end) for so many parts of [0, count) of about the same length.
template <typename Work>
void in_parts(detail::ThreadTeam& team, std::uint64_t count, std::uint64_t parts, Work work) {
  team.run(parts, [&](std::size_t part) {
    work(count / parts * part, part + 1 == parts ? count : count / parts * (part + 1));
  });
}

// The kinds of work, by where the data are. Each throws what the library throws, and
// std::runtime_error when a result is wrong; false: the kind is not among them.
bool measure_bandwidth(const Cell& cell, Result& result);
bool measure_memory(const Cell& cell, Result& result);
bool measure_files(const Cell& cell, Result& result);
bool measure_streams(const Cell& cell, Result& result);

// A sort of the file of a cell, which is made where it is not there yet.
struct FileJob {
  std::string input;
  std::string output;
  std::uint64_t bytes = 0;
  std::optional<RecordFormat> format;  // none: lines
  SortResources resources;
};
FileJob job_of(const Cell& cell);
// Carries it out once, with a trace unless that has no name; the output is removed.
SortReport sort_of(const FileJob& job, const std::string& trace = {});

// Prints what the model of the study says of a sort of files with more threads and other disks, and
// how near it is where it was measured: with one thread, from which it has its costs, and with the
// cell's.
void print_model(const Cell& cell);

// The curves of a file of results, as SVG.
std::string chart_of(const nlohmann::ordered_json& results);

}  // namespace vortex::bench
