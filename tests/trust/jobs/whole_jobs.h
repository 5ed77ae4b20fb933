// Whole jobs of the library, small enough to be done thousands of times.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/trust/jobs/sort_jobs.h"
#include "tests/trust/jobs/stream_jobs.h"

namespace vortex::test {

inline const std::vector<std::string>& job_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const SortShape& shape : sort_shapes()) all.push_back(shape.name);
    for (const char* const other :
         {"Copy", "StripedCopy", "Array", "ResizedArray", "TimedReaders", "Pipeline", "Sorter",
          "Chain", "LineSorter", "Partition", "Division"}) {
      all.emplace_back(other);
    }
    return all;
  }();
  return names;
}

inline WholeJob make_job(const std::string& name, std::mt19937_64& random) {
  for (const SortShape& shape : sort_shapes()) {
    if (shape.name == name) return sort_job(shape, random);
  }
  if (name == "Copy" || name == "StripedCopy") return copy_job(random, name != "Copy");
  if (name == "Array") return array_job(random);
  if (name == "ResizedArray") return resized_array_job(random);
  if (name == "TimedReaders") return timed_readers_job(random);
  if (name == "Pipeline") return pipeline_job(random);
  if (name == "Sorter") return sorter_job(random);
  if (name == "Division") return division_job(random);
  if (name == "LineSorter") return line_sorter_job(random);
  if (name == "Chain") return chain_job(random);
  return partition_job(random);
}

}  // namespace vortex::test
