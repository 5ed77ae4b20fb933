// When a merge takes and gives back its blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "io/sequence/block_allocation.h"
#include "sort/merge/order_of_need.h"
#include "study/block_merger.h"

namespace vortex { inline namespace v0 {

// One moment of a merge: after `records_before` records of output a block is given back, another is
// taken, or both, in this order. Blocks are positions in the trace's `order`.
struct MergeStep {
  std::uint64_t records_before = 0;
  Position released = kNoPosition;
  Position taken = kNoPosition;
};

// The order in which a merge takes and releases blocks, whatever time reading and merging take.
struct MergeTrace {
  std::vector<NeededBlock> order;  // as the merge takes them
  std::vector<MergeStep> steps;    // ascending
  std::uint64_t records = 0;       // of output
  std::uint32_t runs = 0;
  std::size_t held_blocks = 0;  // most blocks held at once
};

// For each run and each block of it, how many records of output there are when it is used up. No
// two numbers are equal: each record of output is the last of one block at most.
using BlockEnds = std::vector<std::vector<std::uint64_t>>;

// The merge through plain run pointers: the first blocks of all runs at the start, then block i + 1
// of a run the moment block i is used up.
MergeTrace plain_merge_trace(const BlockEnds& ends);

// Block ends of the merge of sorted runs, equal records in the order of the runs.
template <typename T, typename Less = std::less<T>>
BlockEnds merged_block_ends(const std::vector<std::vector<T>>& runs,
                            std::uint64_t records_per_block, Less less = {});

// The merge that takes blocks in the order of their smallest keys (SPAA, section 2.2; BlockMerger),
// with one merge buffer a run. `merged`, where it is not null, gets the output.
template <typename T, typename Less = std::less<T>>
MergeTrace block_merge_trace(const std::vector<std::vector<T>>& runs,
                             std::uint64_t records_per_block, Less less = {},
                             std::vector<T>* merged = nullptr);

// Puts the blocks of each run where its allocation says.
void assign_disks(std::vector<NeededBlock>& order, const std::vector<BlockAllocation>& allocations);

// The same steps told in the positions of another order of the same blocks: what happens when a
// policy is given an order that is not the one in which the merge takes its blocks.
MergeTrace retold(const MergeTrace& trace, const std::vector<NeededBlock>& order);

// Templates from here on.

template <typename T, typename Less>
BlockEnds merged_block_ends(const std::vector<std::vector<T>>& runs,
                            std::uint64_t records_per_block, Less less) {
  struct Head {
    std::size_t run;
    std::uint64_t index;
  };
  const auto later = [&](const Head& a, const Head& b) {
    if (less(runs[b.run][b.index], runs[a.run][a.index])) return true;
    if (less(runs[a.run][a.index], runs[b.run][b.index])) return false;
    return b.run < a.run;
  };
  std::vector<Head> heads;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (!runs[run].empty()) heads.push_back({run, 0});
  }
  std::make_heap(heads.begin(), heads.end(), later);
  BlockEnds ends(runs.size());
  for (std::uint64_t records = 1; !heads.empty(); ++records) {
    std::pop_heap(heads.begin(), heads.end(), later);
    Head& head = heads.back();
    const std::uint64_t size = runs[head.run].size();
    ++head.index;
    if (head.index % records_per_block == 0 || head.index == size) {
      ends[head.run].push_back(records);
    }
    if (head.index == size) {
      heads.pop_back();
    } else {
      std::push_heap(heads.begin(), heads.end(), later);
    }
  }
  return ends;
}

template <typename T, typename Less>
MergeTrace block_merge_trace(const std::vector<std::vector<T>>& runs,
                             std::uint64_t records_per_block, Less less, std::vector<T>* merged) {
  MergeTrace trace;
  trace.runs = static_cast<std::uint32_t>(runs.size());
  for (std::uint32_t run = 0; run < runs.size(); ++run) {
    trace.records += runs[run].size();
    for (std::uint64_t index = 0; index * records_per_block < runs[run].size(); ++index) {
      trace.order.push_back({run, 0, index});
    }
  }
  const auto first_key = [&](const NeededBlock& block) -> const T& {
    return runs[block.run][block.index * records_per_block];
  };
  // Within a run the blocks are in order already, so the sort need only be stable.
  std::stable_sort(
      trace.order.begin(), trace.order.end(),
      [&](const NeededBlock& a, const NeededBlock& b) { return less(first_key(a), first_key(b)); });

  BlockMerger<T, Less> merger(less);
  Position next = 0;
  const auto take_next = [&](MergeStep step) {
    if (next < trace.order.size()) {
      const NeededBlock& block = trace.order[next];
      const std::span<const T> run(runs[block.run]);
      const std::uint64_t begin = block.index * records_per_block;
      merger.add(
          next, run.subspan(begin, std::min<std::uint64_t>(records_per_block, run.size() - begin)));
      step.taken = next++;
    }
    if (step.released != kNoPosition || step.taken != kNoPosition) trace.steps.push_back(step);
  };
  for (std::uint32_t run = 0; run < runs.size(); ++run) take_next({});
  trace.held_blocks = next;
  for (std::uint64_t records = 1; !merger.empty(); ++records) {
    const auto selected = merger.select();
    if (merged != nullptr) merged->push_back(*selected.element);
    if (selected.used_up) take_next({.records_before = records, .released = selected.position});
  }
  return trace;
}

}}  // namespace vortex::v0
