// What an external sort is asked for, and what it tells afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vortex/record_format.h"
#include "vortex/sort_plan.h"
#include "vortex/sort_resources.h"

namespace vortex::inline v0 {

struct ExternalSortOptions {
  // In this order: of records with equal keys, those of an earlier input come first. "-" is
  // standard input.
  std::vector<std::string> inputs = {};
  std::string output = {};  // "-" is standard output
  // What the records are; none for records of a type with a comparator.
  std::optional<RecordFormat> format = {};
  // Address space for each input whose length is not known (a pipe). One that is longer ends the
  // sort with EFBIG. Where the system refuses so much, as much as it gives.
  std::uint64_t most_pipe_bytes = std::uint64_t{16} << 40;
  bool unique = false;        // of records with equal keys, only the first is written
  bool merge_inputs = false;  // every input is sorted already
  SortResources resources = {};
};

struct ExternalSortReport {
  SortPlan plan;
  std::uint64_t records_in = 0;
  std::uint64_t records_out = 0;
  std::size_t record_bytes = 0;
  std::uint64_t runs = 0;       // in the folders; 0: everything fitted in memory
  unsigned merges = 0;          // the last one included
  unsigned passes = 0;          // merges of a record on its way, at most
  std::uint64_t run_bytes = 0;  // written to the folders in all
  // What the disks moved: inputs, runs and output.
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  // What they have to move at least, reading and writing added up: everything once each way where
  // it is sorted in memory, else twice. Divided by their speed it is the lower bound of the time,
  // or cpu_seconds where that is more.
  std::uint64_t least_io_bytes = 0;
  // Of the sorting thread, disks' threads left out: the time it would take with disks that are
  // infinitely fast.
  double cpu_seconds = 0;
  double run_formation_seconds = 0;
  double merge_seconds = 0;  // until the output was complete and synced
  double seconds = 0;

  std::uint64_t io_bytes() const noexcept { return read_bytes + written_bytes; }
};

}  // namespace vortex::inline v0
