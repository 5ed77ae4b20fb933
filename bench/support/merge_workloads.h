// Merges to be simulated: only where their blocks end matters, so no record is ever made.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "io/sequence/block_allocation.h"
#include "io/sequence/seeded_random.h"
#include "study/merge_trace.h"

namespace vortex::bench {

// Records of random keys in sorted order, each told by the run it comes from: all interleavings of
// runs of `sizes` records are equally likely. Exact, at a byte or two a record.
inline std::vector<std::uint16_t> random_interleaving(const std::vector<std::uint64_t>& sizes,
                                                      SeededRandom& random) {
  std::vector<std::uint16_t> run_of;
  for (std::size_t run = 0; run < sizes.size(); ++run) {
    run_of.insert(run_of.end(), sizes[run], static_cast<std::uint16_t>(run));
  }
  for (std::size_t last = run_of.size(); last > 1; --last) {
    std::swap(run_of[last - 1], run_of[random.below(last)]);
  }
  return run_of;
}

// A merge of some of the runs of an interleaving.
struct GroupedMerge {
  BlockEnds ends;
  std::uint64_t records = 0;
};

// One pass over the interleaving: `run_now[r]` is the run that initial run r is part of by now, and
// `order` of those are merged at a time. Tells the merges of the pass; run_now is changed to what
// it is after the pass.
inline std::vector<GroupedMerge> merge_pass(const std::vector<std::uint16_t>& run_of,
                                            std::vector<std::uint16_t>& run_now,
                                            std::uint64_t order, std::uint64_t records_per_block) {
  const std::size_t runs = *std::max_element(run_now.begin(), run_now.end()) + std::size_t{1};
  std::vector<GroupedMerge> merges((runs + order - 1) / order);
  for (std::size_t run = 0; run < runs; ++run) merges[run / order].ends.emplace_back();
  std::vector<std::uint64_t> left(runs, 0), filled(runs, 0);
  for (const std::uint16_t initial : run_of) ++left[run_now[initial]];
  for (const std::uint16_t initial : run_of) {
    const std::uint16_t run = run_now[initial];
    GroupedMerge& merge = merges[run / order];
    ++merge.records;
    --left[run];
    if (++filled[run] == records_per_block || left[run] == 0) {
      merge.ends[run % order].push_back(merge.records);
      filled[run] = 0;
    }
  }
  for (std::uint16_t& run : run_now) run = static_cast<std::uint16_t>(run / order);
  return merges;
}

// How the keys of the runs lie to each other.
enum class Keys {
  kUniform,   // random
  kDisjoint,  // each run has a range of its own: the input was sorted
  kInStep,    // all blocks of a row end together (the irregular example of SPAA, section 2.3)
};

// Block ends of runs of `blocks[r]` blocks of `records_per_block` records. Random ones are drawn as
// what they are, sums of `records_per_block` gaps between neighbours, with the normal distribution
// in place of the Gamma distribution; good for blocks of hundreds of records or more.
inline BlockEnds drawn_block_ends(const std::vector<std::uint64_t>& blocks,
                                  std::uint64_t records_per_block, Keys keys,
                                  SeededRandom& random) {
  struct End {
    double key;
    std::uint32_t run;
    std::uint64_t index;
  };
  const auto normal = [&] {  // Irwin and Hall
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.unit();
    return sum;
  };
  std::vector<End> all;
  for (std::uint32_t run = 0; run < blocks.size(); ++run) {
    if (keys == Keys::kUniform) {
      const auto mean = static_cast<double>(records_per_block);
      std::vector<double> sums;
      double sum = 0;
      for (std::uint64_t index = 0; index < blocks[run]; ++index) {
        sums.push_back(sum += std::max(1.0, mean + std::sqrt(mean) * normal()));
      }
      // The gap behind the last record.
      for (std::uint64_t index = 0; index < blocks[run]; ++index) {
        all.push_back({sums[index] / (sum + 1), run, index});
      }
    } else {
      for (std::uint64_t index = 0; index < blocks[run]; ++index) {
        const auto row = static_cast<double>(index);
        // Ties go to the lower run.
        all.push_back({keys == Keys::kInStep ? row : run * 1e9 + row, run, index});
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const End& a, const End& b) { return a.key < b.key; });

  // How many records come before the j-th end of any block: with random keys in proportion to the
  // key; in step, all but one record of a row come before its first end.
  const std::uint64_t total_blocks =
      std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0});
  const std::uint64_t records = total_blocks * records_per_block;
  BlockEnds ends(blocks.size());
  std::uint64_t before = 0, row_begin = 0;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const End& end = all[at];
    std::uint64_t rank = 0;
    if (keys == Keys::kUniform) {
      rank = static_cast<std::uint64_t>(end.key * static_cast<double>(records));
      // Ends stay apart, and as many records are left as there are ends.
      rank = std::clamp(rank, before + 1, records - (all.size() - 1 - at));
    } else if (keys == Keys::kInStep) {
      if (at == 0 || all[at - 1].key != end.key) {
        const auto in_row = static_cast<std::uint64_t>(
            std::count_if(all.begin() + static_cast<std::ptrdiff_t>(at), all.end(),
                          [&](const End& other) { return other.key == end.key; }));
        before = row_begin + in_row * (records_per_block - 1);
        row_begin += in_row * records_per_block;
      }
      rank = before + 1;
    } else {
      rank = before + records_per_block;
    }
    ends[end.run].push_back(before = rank);
  }
  return ends;
}

inline std::vector<BlockAllocation> allocate_runs(AllocationStrategy strategy,
                                                  const std::vector<double>& weights,
                                                  std::size_t runs, std::uint64_t seed) {
  std::vector<BlockAllocation> allocations;
  for (std::size_t run = 0; run < runs; ++run) {
    allocations.emplace_back(strategy, weights, seed, run);
  }
  return allocations;
}

}  // namespace vortex::bench
