// A merge on disks with a virtual clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sort/merge/prefetch_policy.h"
#include "study/buffered_forecasts.h"
#include "study/merge_trace.h"
#include "study/service_clock.h"

namespace vortex { inline namespace v0 {

struct MergeSimulationOptions {
  std::vector<ServiceModel> disks;
  std::size_t block_bytes = 1 << 20;
  double ns_per_record = 0;  // that the processor needs to merge one record

  // Output: blocks of `records_per_block` records, striped over the disks by bandwidth. One of
  // `write_buffers` blocks is filled by the merge; full ones go to the disks when `write_batch` of
  // them have gathered, before any read that waits there (SPAA, section 3). 0 buffers: the output
  // costs nothing, and the time is that of reading and merging.
  std::uint64_t records_per_block = 1;
  std::size_t write_buffers = 0;
  std::size_t write_batch = 1;

  // The forecasting data of the policy's order, where they are not in memory; else null.
  // `forecast_read_bytes` are the bytes of one read of them, which goes round the disks as a
  // request of its own; 0: such reads cost nothing.
  const BufferedForecasts* forecasts = nullptr;
  std::size_t forecast_read_bytes = 0;
};

struct MergeSimulationResult {
  bool stuck = false;  // the merge waits for a block that nobody will fetch; the rest is until then
  std::uint64_t time_ns = 0;           // until the last write has ended
  std::uint64_t input_wait_ns = 0;     // the merge waited for a block
  std::uint64_t output_wait_ns = 0;    // the merge waited for a free write buffer
  std::vector<std::uint64_t> busy_ns;  // of each disk
  std::uint64_t seeks = 0;
  std::uint64_t blocks_written = 0;
  PrefetchPolicy::Statistics prefetch;
  std::uint64_t forecast_reads = 0;
};

// Carries out what `policy` decides for the merge that `trace` describes, on SimulatedDisks that
// move no bytes: exact, the same every time, and in no more real time than its few events a block
// take. The order of need of `policy` must be trace.order. Throws Error (EINVAL) for options that
// make no sense.
MergeSimulationResult simulate_merge(const MergeTrace& trace, PrefetchPolicy& policy,
                                     const MergeSimulationOptions& options);

}}  // namespace vortex::v0
