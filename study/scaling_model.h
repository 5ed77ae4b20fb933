// How long a phase of a sort takes with several threads, from what its steps take with one.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A step that each record or block of a phase passes.
struct ScalingStep {
  std::string name;
  double seconds = 0;         // of one thread, for the whole phase
  unsigned most_threads = 0;  // that carry it out side by side; 0: as many as there are
  // More for each further thread of the process: a move of pages interrupts every processor on
  // which one runs.
  double seconds_of_thread = 0;
  bool is_of_disks = false;  // threads of the disks carry it out, beside those of the sort
  // Of the seconds: until a thread is woken. A processor has nothing else to do meanwhile where
  // there are as few as threads.
  double idle_seconds = 0;
  double disk_bytes = 0;  // that pass the disks meanwhile
  // A sort with one thread ends a stage, in a part of the memory, before it begins the next.
  unsigned stage = 0;
};

// Steps overlap: while a record is in one, others are in the others.
struct ScalingPhase {
  std::vector<ScalingStep> steps;
  double seconds_alone = 0;  // of one thread, beside which nothing else is done
};

struct ScaledPhase {
  double seconds = 0;
  double processor_seconds = 0;  // of all threads
  std::string_view limit;        // the step that takes as long, "threads", "processors", "disks" or
                                 // "one thread"
};

struct ScalingMachine {
  unsigned threads = 1;  // of the sort
  unsigned processors = 1;
  double disk_bytes_per_second = std::numeric_limits<double>::infinity();
};

// The least time that the model allows: the longest of what the sort's steps take divided by its
// threads; what all steps take divided by the processors; what each step takes divided by the
// threads that may carry it out; and the time of the disks. With one thread it is the sum of these
// over the stages. What is done alone is added. The limit, of several stages that of the longest,
// names a step of the phase, which outlives it.
ScaledPhase scaled(const ScalingPhase& phase, const ScalingMachine& machine);

}}  // namespace vortex::v0
