#include "study/merge_trace.h"

#include <cassert>
#include <map>
#include <utility>

namespace vortex { inline namespace v0 {

MergeTrace plain_merge_trace(const BlockEnds& ends) {
  struct UsedUp {
    std::uint64_t records;
    std::uint32_t run;
    std::uint64_t index;
  };
  MergeTrace trace;
  trace.runs = static_cast<std::uint32_t>(ends.size());
  std::vector<UsedUp> used_up;
  std::vector<Position> current(ends.size(), kNoPosition);  // the block of each run that is held
  for (std::uint32_t run = 0; run < ends.size(); ++run) {
    for (std::uint64_t index = 0; index < ends[run].size(); ++index) {
      used_up.push_back({ends[run][index], run, index});
    }
    if (ends[run].empty()) continue;
    current[run] = static_cast<Position>(trace.order.size());
    trace.steps.push_back({.taken = current[run]});
    trace.order.push_back({run, 0, 0});
  }
  trace.held_blocks = trace.order.size();
  std::sort(used_up.begin(), used_up.end(),
            [](const UsedUp& a, const UsedUp& b) { return a.records < b.records; });
  for (const auto& [records, run, index] : used_up) {
    MergeStep step = {.records_before = records, .released = current[run]};
    if (index + 1 < ends[run].size()) {
      step.taken = current[run] = static_cast<Position>(trace.order.size());
      trace.order.push_back({run, 0, index + 1});
    }
    trace.steps.push_back(step);
  }
  if (!used_up.empty()) trace.records = used_up.back().records;
  return trace;
}

void assign_disks(std::vector<NeededBlock>& order,
                  const std::vector<BlockAllocation>& allocations) {
  for (NeededBlock& block : order) block.disk = allocations[block.run].disk(block.index);
}

MergeTrace retold(const MergeTrace& trace, const std::vector<NeededBlock>& order) {
  std::map<std::pair<std::uint32_t, std::uint64_t>, Position> position_of;
  for (Position position = 0; position < order.size(); ++position) {
    position_of[{order[position].run, order[position].index}] = position;
  }
  const auto translate = [&](Position position) {
    if (position == kNoPosition) return kNoPosition;
    const NeededBlock& block = trace.order[position];
    return position_of.at({block.run, block.index});
  };
  MergeTrace result = trace;
  result.order = order;
  for (MergeStep& step : result.steps) {
    step.released = translate(step.released);
    step.taken = translate(step.taken);
  }
  return result;
}

}}  // namespace vortex::v0
