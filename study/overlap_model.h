// The model in which merging provably overlaps with its input and output.
#pragma once

#include <cstdint>

#include "study/merge_trace.h"

namespace vortex { inline namespace v0 {

// The model of SPAA, section 2.3: an I/O step moves up to D blocks, wherever they are, in time L;
// one step at a time, beside the merging thread, which needs ℓ a record. All times in one unit.
struct OverlapModelOptions {
  unsigned disks = 1;                   // D
  std::uint64_t records_per_block = 1;  // B
  std::uint64_t step_time = 1;          // L
  std::uint64_t record_time = 0;        // ℓ
  std::uint64_t overlap_blocks = 0;     // FIFO between I/O thread and merge buffers: k + 3D
  std::uint64_t write_records = 0;      // FIFO between merging and I/O thread: 2DB
};

struct OverlapModelResult {
  bool stuck = false;
  std::uint64_t time = 0;  // until the last record is written
  std::uint64_t input_steps = 0;
  std::uint64_t output_steps = 0;
  std::uint64_t merge_wait = 0;  // time in which the merging thread waited for input or for room
};

// The I/O thread's rule: when no step is under way, D blocks of output are written if there are as
// many in the write buffer; else the next D blocks of the order are fetched if as many overlap
// buffers are free. The rest at the end of either kind, fewer than D blocks, takes a step of its
// own. Records leave the write buffer when the step that writes them ends. `trace` says when
// the merging thread takes which block.
OverlapModelResult run_overlap_model(const MergeTrace& trace, const OverlapModelOptions& options);

// The time that Theorem 4 promises for k + 3D overlap blocks and a write buffer of 2DB records:
// max(2 L N' / (D B), ℓ N') + L (k / D + 3), fractions rounded up.
std::uint64_t overlap_model_bound(const MergeTrace& trace, const OverlapModelOptions& options);

}}  // namespace vortex::v0
