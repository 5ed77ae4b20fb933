// How run formation divides the memory of a plan.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sort/plan/record_plan.h"

namespace vortex { inline namespace v0 {

inline constexpr std::size_t kMinBuckets = 2;

// The scratch and the number of buckets for a pool, where runs are formed, or where all that comes
// fits.
std::size_t scratch_for(std::uint64_t pool_bytes, unsigned buckets, bool forms_runs,
                        const SortPlanRequest& request);
unsigned buckets_in(std::size_t blocks, bool forms_runs, const SortPlanRequest& request);

// Divides the pool for run formation; false when it is too small.
bool divide_for_runs(RecordPlan& plan, bool forms_runs);
// What the input leaves of the pool goes to the output.
void deepen_output(RecordPlan& plan);

// Whether a bucket a little larger than the average is too large for the scratch, which is slow.
bool sorts_in_parts(const RecordPlan& plan);

// So many buckets occupy the threads; 0: any do.
unsigned buckets_for(unsigned threads) noexcept;
// Whether smaller blocks would occupy more threads while runs are formed.
bool lacks_buckets(const RecordPlan& plan);

// While nobody else works, or not.
unsigned threads_to_partition(unsigned threads, std::uint64_t memory_bytes, std::size_t block_bytes,
                              bool alone) noexcept;
// What threads that partition keep for each bucket.
std::uint64_t bytes_of_partitioners(const RecordPlan& plan);

// From how many bytes on a run is written; 0: when the memory is full.
std::uint64_t bytes_to_begin_run(const RecordPlan& plan, std::uint64_t largest_merge_order);

}}  // namespace vortex::v0
