// What a sort of files would take with more threads and faster disks, by the model of the study.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/scaling/cell.h"
#include "study/scaling_model.h"
#include "vortex/thread/control_groups.h"

namespace vortex::bench {

namespace {

using Json = nlohmann::ordered_json;

// What moving one block of pages takes: the call, and what interrupting one more processor adds
// (bench/guards, bench/scaling pipelines).
constexpr double kMoveSeconds = 3.4e-6;
constexpr double kMoveSecondsOfThread = 0.5e-6;

// That copy files in memory, see Disk::copiers_for().
constexpr unsigned kMostCopiers = 16;

struct Interval {
  double begin = 0;
  double end = 0;
};

// Of one phase of a sort: seconds of threads by what they did, without what lies within it, and
// when a disk had something to do.
struct Traced {
  std::map<std::string, double> seconds;
  std::uint64_t faults = 0;
  double disk_bytes = 0;
  std::vector<Interval> disks;

  double disk_seconds() {
    std::ranges::sort(disks, {}, &Interval::begin);
    double busy = 0, end = 0;
    for (const Interval& request : disks) {
      busy += std::max(0.0, request.end - std::max(request.begin, end));
      end = std::max(end, request.end);
    }
    return busy;
  }
};

// Spans of a thread lie within each other; its time is that of the innermost. Spans are kept when
// they end, so those within one come before it.
class OwnTime {
 public:
  double of(const Interval& span) {
    double within = 0;
    while (!ended_.empty() && ended_.back().begin >= span.begin) {
      within += ended_.back().end - ended_.back().begin;
      ended_.pop_back();
    }
    ended_.push_back(span);
    return span.end - span.begin - within;
  }

 private:
  std::vector<Interval> ended_;
};

// The two phases of a sort with one thread.
std::pair<Traced, Traced> phases_of(const std::string& path, double forming_seconds) {
  std::ifstream file(path);
  const Json trace = Json::parse(file);
  if (trace.at("otherData").at("spans_lost") != 0) throw std::runtime_error("the trace is cut off");
  std::pair<Traced, Traced> phases;
  std::map<int, OwnTime> threads;
  std::map<int, Interval> requests;
  const auto phase_at = [&](double seconds) -> Traced& {
    return seconds <= forming_seconds ? phases.first : phases.second;
  };
  for (const Json& event : trace.at("traceEvents")) {
    const std::string kind = event.at("ph");
    if (kind == "M") continue;
    const double begin = event.at("ts").get<double>() * 1e-6;
    const std::string name = event.at("name");
    if (kind == "b") {
      requests[event.at("id")].begin = begin;
      phase_at(begin).disk_bytes += event.at("args").at("bytes").get<double>();
    } else if (kind == "e") {
      phase_at(begin).disks.push_back({requests[event.at("id")].begin, begin});
    } else {
      const Interval span{begin, begin + event.at("dur").get<double>() * 1e-6};
      const double own = threads[event.at("tid")].of(span);
      Traced& phase = phase_at(span.end);
      if (name == "fault") ++phase.faults;
      if (name != "wait") phase.seconds[name] += own;
    }
  }
  return phases;
}

// Where files lie in memory their transfers are copies, and the disks' threads take processors,
// too.
ScalingPhase model_of(Traced& traced, double phase_seconds, bool in_memory, unsigned disk_threads) {
  ScalingPhase phase;
  double named = 0;
  for (const auto& [name, seconds] : traced.seconds) {
    phase.steps.push_back({name, seconds});
    named += seconds;
  }
  const double disks = traced.disk_seconds();
  // What no span tells is between them.
  phase.steps.push_back({"the rest", std::max(0.0, phase_seconds - std::max(named, disks))});
  const auto moves = static_cast<double>(traced.faults);
  phase.steps.push_back({"moves of pages", moves * kMoveSeconds, 1, moves * kMoveSecondsOfThread});
  if (in_memory) {
    phase.steps.push_back({"copies of files", disks, disk_threads, 0, true});
  } else {
    phase.disk_bytes = traced.disk_bytes;
  }
  return phase;
}

struct Model {
  ScalingPhase forming;
  ScalingPhase merging;

  struct Told {
    double seconds = 0;
    std::string limits;
  };
  Told of(const ScalingMachine& machine) const {
    const ScaledPhase first = scaled(forming, machine);
    const ScaledPhase second = scaled(merging, machine);
    return {first.seconds + second.seconds,
            std::string(first.limit) + ", " + std::string(second.limit)};
  }
};

Model measured_model(const Cell& cell, bool in_memory, SortReport& report) {
  Cell with_one = cell;
  with_one.threads = 1;
  const std::string trace = cell.folder + "/scaling.trace";
  report = sort_file_of(with_one, trace);
  auto [forming, merging] = phases_of(trace, report.run_formation_seconds);
  unlink(trace.c_str());
  const auto model = [&](Traced& traced, double seconds) {
    return model_of(traced, seconds, in_memory, kMostCopiers);
  };
  return {model(forming, report.run_formation_seconds), model(merging, report.merge_seconds)};
}

void print_steps(const char* phase, const ScalingPhase& steps) {
  std::printf("%s:", phase);
  for (const ScalingStep& step : steps.steps) {
    if (step.seconds >= 0.005) std::printf(" %s %.2f s;", step.name.c_str(), step.seconds);
  }
  std::printf(" %.0f MiB of transfers\n", steps.disk_bytes / (1 << 20));
}

}  // namespace

void print_model(const Cell& cell) {
  const bool in_memory = cell.place == "tmpfs";
  SortReport report;
  const Model model = measured_model(cell, in_memory, report);
  print_steps("forming", model.forming);
  print_steps("merging", model.merging);
  std::printf(
      "\n| threads | disks, GB/s | model, s | measured, s | limits: forming, merging |\n"
      "|--:|--:|--:|--:|---|\n");
  const auto row = [&](const ScalingMachine& machine, const char* disk, const char* measured) {
    const Model::Told told = model.of(machine);
    std::printf("| %u | %s | %.2f | %s | %s |\n", machine.threads, disk, told.seconds, measured,
                told.limits.c_str());
  };
  const auto here = [&](unsigned threads, const SortReport& measured) {
    const double seconds = measured.run_formation_seconds + measured.merge_seconds;
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.2f", seconds);
    row({threads, std::max(threads, usable_cores())}, "here", digits);
  };
  here(1, report);
  if (cell.threads > 1) here(cell.threads, sort_file_of(cell));
  for (unsigned threads = 2; threads <= 128; threads *= 2) row({threads, threads}, "any", "");
  if (in_memory) return;
  for (const auto& [disk, speed] :
       {std::pair{"2", 2e9}, std::pair{"7", 7e9}, std::pair{"14", 14e9}, std::pair{"50", 50e9}}) {
    for (const unsigned threads : {2, 8, 32, 128}) row({threads, threads, speed}, disk, "");
  }
}

}  // namespace vortex::bench
