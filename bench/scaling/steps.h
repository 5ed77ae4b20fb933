// How many threads carry out each step of a sort of files, as the library's plans say, and what the
// steps cost that one thread carries out in another way.
#pragma once

#include <cstddef>

#include "bench/scaling/cell.h"

namespace vortex::bench {

struct StepThreads {
  unsigned partition = 1;  // or take lines
  unsigned sort = 1;
  unsigned pass_on = 1;       // what is sorted
  bool sorts_beside = false;  // and does not pass on at once
  unsigned merge = 1;
  unsigned copy = 0;  // files in memory, each disk's; 0: the thread of the disk
  std::size_t block_bytes = 0;
};

// Of the sort with so many threads on as many processors, each of which has 32 MiB of memory at
// least, and of an input that is as much longer; `with_one` is what came of it with one.
StepThreads step_threads(const FileJob& job, const SortReport& with_one, unsigned threads);

// Of records: what several threads take, as parts of what one thread takes that partitions, or that
// sorts and passes on at once.
struct StepCosts {
  double partition = 1;
  double sort = 1;
  double pass_on = 0;
};
StepCosts step_costs(const FileJob& job, const SortPlan& with_one);

}  // namespace vortex::bench
