#include "study/scaling_model.h"

#include <algorithm>

namespace vortex { inline namespace v0 {

namespace {

// The steps of a stage; of all of them where several threads are in several.
ScaledPhase overlapped(const ScalingPhase& phase, const ScalingMachine& machine, unsigned stage) {
  const unsigned threads = machine.threads;
  double of_sort = 0, all = 0, disk_bytes = 0;
  ScaledPhase longest;
  const auto note = [&longest](double seconds, std::string_view limit) {
    if (seconds <= longest.seconds) return;
    longest.seconds = seconds;
    longest.limit = limit;
  };
  for (const ScalingStep& step : phase.steps) {
    if (threads == 1 && step.stage != stage) continue;
    const double seconds = step.seconds + (threads - 1) * step.seconds_of_thread;
    all += seconds;
    longest.processor_seconds += seconds - step.idle_seconds;
    disk_bytes += step.disk_bytes;
    if (!step.is_of_disks) of_sort += seconds;
    if (step.most_threads != 0) note(seconds / step.most_threads, step.name);
  }
  note(disk_bytes / machine.disk_bytes_per_second, "disks");
  note(of_sort / threads, "threads");
  note(all / machine.processors, "processors");
  return longest;
}

}  // namespace

ScaledPhase scaled(const ScalingPhase& phase, const ScalingMachine& machine) {
  unsigned stages = 1;
  for (const ScalingStep& step : phase.steps) {
    if (machine.threads == 1) stages = std::max(stages, step.stage + 1);
  }
  ScaledPhase whole{phase.seconds_alone, phase.seconds_alone, "one thread"};
  double longest = phase.seconds_alone;
  for (unsigned stage = 0; stage < stages; ++stage) {
    const ScaledPhase part = overlapped(phase, machine, stage);
    whole.seconds += part.seconds;
    whole.processor_seconds += part.processor_seconds;
    if (part.seconds <= longest) continue;
    longest = part.seconds;
    whole.limit = part.limit;
  }
  return whole;
}

}}  // namespace vortex::v0
