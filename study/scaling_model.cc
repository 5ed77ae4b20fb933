#include "study/scaling_model.h"

#include <algorithm>

namespace vortex { inline namespace v0 {

ScaledPhase scaled(const ScalingPhase& phase, const ScalingMachine& machine) {
  const unsigned threads = machine.threads;
  double of_sort = 0, all = 0;
  ScaledPhase longest{phase.disk_bytes / machine.disk_bytes_per_second, "disks"};
  const auto note = [&longest](double seconds, std::string_view limit) {
    if (seconds > longest.seconds) longest = {seconds, limit};
  };
  for (const ScalingStep& step : phase.steps) {
    const double seconds = step.seconds + (threads - 1) * step.seconds_of_thread;
    all += seconds;
    if (!step.is_of_disks) of_sort += seconds;
    if (step.most_threads != 0) note(seconds / step.most_threads, step.name);
  }
  note(of_sort / threads, "threads");
  note(all / machine.processors, "processors");
  return longest;
}

}}  // namespace vortex::v0
