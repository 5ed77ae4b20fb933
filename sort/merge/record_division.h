// Runs of records of one length, cut at the same places of their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sort/merge/merge_prefetcher.h"
#include "sort/runs/run.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// A part of what a merge gives, of consecutive records.
struct RecordPart {
  struct Range {
    std::uint64_t begin = 0;  // in records of a run
    std::uint64_t end = 0;
  };

  // The records of a run's part, in bytes of the run.
  RunSlice slice(Run& run, std::size_t index, std::size_t record_bytes) const noexcept {
    const Range& range = runs[index];
    return RunSlice::between(
        run, run.skipped + range.begin * record_bytes,
        range.end == run.records ? run.bytes : run.skipped + range.end * record_bytes);
  }

  std::vector<Range> runs;    // of each, or of other sequences
  MergeInput in_memory = {};  // which comes behind records of runs that are equal
  std::uint64_t records = 0;  // in all
};

// All of it as one part.
RecordPart whole_merge(std::span<const Run> runs, const MergeInput& in_memory);

// Cuts the runs, and what is in memory behind them, into `parts` parts at most, about equally long,
// none with less than `least_records`, one behind the other in the order of a stable merge: what is
// equal may be divided, in the order of the runs. Only the first `most_records` are wanted (0:
// all); the last part has what comes behind them, too.
//
// A splitter is the last record of a block, of which the forecasts tell the key: they decide which
// block of each run it lies in, and a binary search there its place. These read single records,
// some twenty of each run and part, through the page cache, where checksums tell nothing: the order
// of the parts is to be checked by what the merges read. Throws Error: what the disks report.
std::vector<RecordPart> divide_runs(const RecordOrder& order, std::span<const Run> runs,
                                    const MergeInput& in_memory, unsigned parts,
                                    std::uint64_t least_records, std::uint64_t most_records);

// The same of sequences that have so many records each, of which nothing is known beforehand: the
// search reads records that lie `block_bytes` apart, too. `read` gives a record until its next
// call, and what it throws is thrown. One that is not in order is cut anywhere.
using ReadRecord = std::function<const std::byte*(std::size_t sequence, std::uint64_t index)>;
std::vector<RecordPart> divide_sequences(const RecordOrder& order,
                                         std::span<const std::uint64_t> records,
                                         const ReadRecord& read, std::size_t block_bytes,
                                         unsigned parts, std::uint64_t least_records,
                                         std::uint64_t most_records);

}}  // namespace vortex::v0
