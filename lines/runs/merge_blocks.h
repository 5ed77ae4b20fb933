// The blocks that a merge of runs of lines reads, and when it needs them.
#pragma once

#include <memory>
#include <vector>

#include "lines/record/stored_record.h"
#include "lines/runs/line_run.h"
#include "lines/runs/run_division.h"
#include "sort/merge/merge_prefetcher.h"
#include "sort/merge/order_of_need.h"

namespace vortex { inline namespace v0 {

// What a merge of the part reads of each run. The slots of its blocks are given back, but those of
// blocks that a part begins or ends in, which may be another part's, too.
std::vector<RunSlice> slices_of(std::vector<LineRun>& runs, const MergePart& part);

// The order in which the merge of the part needs these blocks, numbered from the first of each
// slice, as far as the forecasts tell: LineMerge merges the forecasts as it merges the records.
std::unique_ptr<OrderOfNeed> order_of_need(const std::vector<LineRun>& runs, const MergePart& part,
                                           const StoredOrder& order);

}}  // namespace vortex::v0
