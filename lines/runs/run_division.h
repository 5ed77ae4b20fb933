// Runs cut at the same places of their order, so that the parts can be merged side by side; and the
// blocks that a merge of a part reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lines/record/stored_record.h"
#include "lines/runs/line_run.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/merge/order_of_need.h"

namespace vortex { inline namespace v0 {

// A part of what a merge gives, of consecutive records.
struct MergePart {
  std::vector<RunPart> runs;     // a part of each
  std::uint64_t counted = 0;     // records, each as many times as it is there
  std::uint64_t text_bytes = 0;  // of these, without keys
};

// All of the runs as one part.
MergePart whole_merge(const std::vector<LineRun>& runs);

// Runs are not divided where a record, as it is stored, is longer.
inline constexpr std::uint64_t kMaxDividedRecord = std::uint64_t{64} << 10;

// Cuts the runs into `parts` parts at most, about equally long, one behind the other in the order.
// Records whose order is equal are in the same part, so there may be fewer parts, or unequal ones.
// None has less than `least_bytes` of text. Only the first `most_counted` are wanted (0: all): the
// parts count these, the last one may have others behind them, and what has none is no part.
//
// A splitter is the record of a mark. It is found by a multiway selection on the marks (Varman et
// al. 1991), which ends when the part is near enough to what it should be; then the runs are
// searched for the first record that does not precede it. Reads a few pages for each of the
// records compared, and in each run what lies between two marks, through the page cache. Takes less
// than a megabyte of memory. Throws Error: what the disks report.
std::vector<MergePart> divide_runs(const std::vector<LineRun>& runs, const StoredOrder& order,
                                   unsigned parts, std::uint64_t least_bytes,
                                   std::uint64_t most_counted = 0);

// What a merge of the part reads of each run. The slots of its blocks are given back, but those of
// blocks that a part begins or ends in, which may be another part's, too.
std::vector<RunSlice> slices_of(std::vector<LineRun>& runs, const MergePart& part);

// The order in which the merge of the part needs these blocks, numbered from the first of each
// slice, as far as the forecasts tell: LineMerge merges the forecasts as it merges the records.
std::unique_ptr<OrderOfNeed> order_of_need(const std::vector<LineRun>& runs, const MergePart& part,
                                           const StoredOrder& order);

}}  // namespace vortex::v0
