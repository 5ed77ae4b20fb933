// How run formation divides its memory.
#pragma once

#include <cstddef>

namespace vortex::inline v0 {

struct RunFormationOptions {
  static constexpr unsigned kMostBuckets = 4096;

  // Into how many buckets a run is split, at most kMostBuckets; fewer in a small pool, so that
  // what they leave partly filled stays a quarter of it or less.
  unsigned buckets = 64;
  // For sorting a bucket, see sort_records(). 32 bytes for each record of a bucket are the fastest.
  std::size_t scratch_bytes = std::size_t{4} << 20;
};

}  // namespace vortex::inline v0
