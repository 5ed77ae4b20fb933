// What a sort of files would take with more threads and faster disks, by the model of the study.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/scaling/cell.h"
#include "bench/scaling/steps.h"
#include "bench/scaling/traced.h"
#include "study/scaling_model.h"
#include "vortex/thread/control_groups.h"

namespace vortex::bench {

namespace {

// What moving one block of pages takes: the call, and what interrupting one more processor adds
// (bench/guards, bench/scaling pipelines).
constexpr double kMoveSeconds = 3.4e-6;
constexpr double kMoveSecondsOfThread = 0.5e-6;

// The phases of a sort as one thread carried them out, and what several do in another way.
struct Measured {
  SortReport report;
  TracedPhase forming;
  TracedPhase merging;
  StepCosts costs;
  double idle_share = 0;  // of the requests to files in memory
  bool of_lines = false;
  bool in_memory = false;  // its files
};

// Faults are a part of their step; moves, fewer of larger blocks, are a step of their own.
class PhaseOf {
 public:
  PhaseOf(const TracedPhase& traced, const Measured& measured, const StepThreads& threads)
      : measured_(measured), threads_(threads) {
    phase_.seconds_alone = traced.seconds_alone;
  }

  void add(const char* name, const TracedWork& work, double times, unsigned threads,
           unsigned stage) {
    const auto moves = static_cast<double>(work.faults);
    moves_ += moves;
    const double faults = std::max(0.0, work.fault_seconds - moves * kMoveSeconds);
    phase_.steps.push_back({.name = name,
                            .seconds = work.seconds * times + faults,
                            .most_threads = threads,
                            .stage = stage});
  }
  // Files in memory are copied by threads, of which one writes to a file at a time, and the others
  // to a mapping, half as fast.
  void add(const char* name, const std::vector<TracedDisk>& disks, bool writes, unsigned stage) {
    const unsigned threads = std::max(writes ? (threads_.copy + 1) / 2 : threads_.copy, 1U);
    for (const TracedDisk& disk : disks) {
      phase_.steps.push_back(
          {.name = name,
           .seconds = measured_.in_memory ? disk.seconds : 0,
           .most_threads = threads,
           .is_of_disks = true,
           .idle_seconds = measured_.in_memory ? disk.seconds * measured_.idle_share : 0,
           .disk_bytes = measured_.in_memory ? 0 : disk.bytes,
           .stage = stage});
    }
  }
  ScalingPhase take() {
    const double smaller = static_cast<double>(measured_.report.plan.block_bytes) /
                           static_cast<double>(threads_.block_bytes);
    const double moves = moves_ * smaller;
    phase_.steps.push_back({.name = "moves of pages",
                            .seconds = moves * kMoveSeconds,
                            .most_threads = 1,
                            .seconds_of_thread = moves * kMoveSecondsOfThread});
    return std::move(phase_);
  }

 private:
  const Measured& measured_;
  const StepThreads& threads_;
  ScalingPhase phase_;
  double moves_ = 0;
};

// One thread partitions, or takes lines, while the disks read, and then sorts and passes on while
// they write: buckets in turn, or all lines.
ScalingPhase forming_of(const Measured& measured, const StepThreads& threads) {
  const TracedPhase& traced = measured.forming;
  const StepCosts& costs = measured.costs;
  const TracedWork sort = traced.of("sort");
  const double passing = threads.sorts_beside ? sort.seconds * costs.pass_on : 0;
  TracedWork pass_on = traced.of("copy");
  pass_on.seconds += passing;
  PhaseOf phase(traced, measured, threads);
  if (measured.of_lines) {
    phase.add("take", traced.of("take"), 1, threads.partition, 0);
  } else {
    phase.add("partition", traced.of("partition"), threads.partition > 1 ? costs.partition : 1,
              threads.partition, 0);
  }
  phase.add("sort", sort, threads.sorts_beside ? costs.sort : 1, threads.sort, 1);
  const unsigned writing = measured.of_lines ? 2 : 1;
  phase.add("pass on", pass_on, 1, threads.pass_on, writing);
  phase.add("faults", traced.of("fault"), 1, 0, writing);
  phase.add("free", traced.of("free"), 1, 1, writing);
  phase.add("reading", traced.reads, false, 0);
  phase.add("writing", traced.writes, true, writing);
  return phase.take();
}

ScalingPhase merging_of(const Measured& measured, const StepThreads& threads) {
  PhaseOf phase(measured.merging, measured, threads);
  for (const char* const name : {"merge", "copy", "sort", "fault"}) {
    const TracedWork work = measured.merging.of(name);
    if (work.seconds + work.fault_seconds > 0) phase.add(name, work, 1, threads.merge, 0);
  }
  // The system frees the space of a file for one thread at a time.
  phase.add("free", measured.merging.of("free"), 1, 1, 0);
  phase.add("reading", measured.merging.reads, false, 0);
  phase.add("writing", measured.merging.writes, true, 0);
  return phase.take();
}

struct Model {
  FileJob job;
  Measured measured;

  struct Told {
    double seconds = 0;
    double processor_seconds = 0;
    std::string limits;
  };
  Told of(const ScalingMachine& machine) const {
    const StepThreads threads = step_threads(job, measured.report, machine.threads);
    const ScalingPhase phases[] = {forming_of(measured, threads), merging_of(measured, threads)};
    const ScaledPhase first = scaled(phases[0], machine), second = scaled(phases[1], machine);
    return {first.seconds + second.seconds, first.processor_seconds + second.processor_seconds,
            std::string(first.limit) + ", " + std::string(second.limit)};
  }
};

// What the process has taken of processors, and the sort's thread has not, is for requests.
double idle_share_of(const Measured& measured) {
  double of_sort = 0, of_disks = 0;
  for (const TracedPhase* const phase : {&measured.forming, &measured.merging}) {
    of_sort += phase->seconds_alone;
    for (const auto& [name, work] : phase->work) of_sort += work.seconds + work.fault_seconds;
    for (const TracedDisk& disk : phase->reads) of_disks += disk.seconds;
    for (const TracedDisk& disk : phase->writes) of_disks += disk.seconds;
  }
  const double taken = std::max(0.0, measured.report.cpu_seconds - of_sort);
  return of_disks == 0 ? 0 : std::max(0.0, 1 - taken / of_disks);
}

Model measured_model(const Cell& cell) {
  Model model;
  model.job = job_of(cell);
  Measured& measured = model.measured;
  measured.of_lines = !model.job.format;
  measured.in_memory = cell.place == "tmpfs";
  FileJob with_one = model.job;
  with_one.resources.threads = 1;
  const std::string trace = cell.folder + "/scaling.trace";
  measured.report = sort_of(with_one, trace);
  std::tie(measured.forming, measured.merging) =
      traced_phases(trace, measured.report.run_formation_seconds, measured.report.merge_seconds);
  unlink(trace.c_str());
  measured.idle_share = idle_share_of(measured);
  measured.costs = step_costs(with_one, measured.report.plan);
  return model;
}

void print_steps(const char* name, const ScalingPhase& phase) {
  std::printf("%s:", name);
  double bytes = 0;
  for (const ScalingStep& step : phase.steps) {
    bytes += step.disk_bytes;
    if (step.seconds < 0.005) continue;
    std::printf(" %s %.2f s", step.name.c_str(), step.seconds);
    if (step.most_threads != 0) std::printf(" by %u", step.most_threads);
    std::printf(";");
  }
  std::printf(" alone %.2f s; %.0f MiB of transfers\n", phase.seconds_alone, bytes / (1 << 20));
}

void print_row(const Model& model, const ScalingMachine& machine, const char* disk,
               const SortReport* report) {
  const Model::Told told = model.of(machine);
  char measured[64] = "|";
  if (report != nullptr) {
    std::snprintf(measured, sizeof measured, "%.2f | %.2f",
                  report->run_formation_seconds + report->merge_seconds, report->cpu_seconds);
  }
  std::printf("| %u | %s | %.2f | %.2f | %s | %s |\n", machine.threads, disk, told.seconds,
              told.processor_seconds, measured, told.limits.c_str());
}

}  // namespace

void print_model(const Cell& cell) {
  Model model = measured_model(cell);
  const Measured& measured = model.measured;
  std::printf(
      "partitioning together takes %.2f times as long; of sorting and passing on at once, "
      "sorting %.2f, passing on %.2f\n",
      measured.costs.partition, measured.costs.sort, measured.costs.pass_on);
  for (const unsigned threads : {1U, 2U, 16U, 128U}) {
    const StepThreads steps = step_threads(model.job, measured.report, threads);
    std::printf("%u threads:\n", threads);
    print_steps("forming", forming_of(measured, steps));
    print_steps("merging", merging_of(measured, steps));
  }
  std::printf(
      "\n| threads | disks, GB/s | model, s | of processors | measured, s | of processors | "
      "limits: "
      "forming, merging |\n|--:|--:|--:|--:|--:|--:|---|\n");
  const unsigned cores = usable_cores();
  print_row(model, {1, cores}, "here", &measured.report);
  if (cell.threads > 1) {
    const SortReport report = sort_of(model.job);
    print_row(model, {cell.threads, std::max(cell.threads, cores)}, "here", &report);
  }
  for (unsigned threads = 2; threads <= 128; threads *= 2) {
    print_row(model, {threads, threads}, "any", nullptr);
  }
  model.measured.in_memory = false;
  for (const auto& [disk, speed] :
       {std::pair{"2", 2e9}, std::pair{"7", 7e9}, std::pair{"14", 14e9}, std::pair{"50", 50e9}}) {
    for (const unsigned threads : {2, 8, 32, 128}) {
      print_row(model, {threads, threads, speed}, disk, nullptr);
    }
  }
}

}  // namespace vortex::bench
