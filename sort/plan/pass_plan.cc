// How merges of runs to runs divide the memory of a plan, where one merge cannot take all.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sort/merge/merge_passes.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/record_plan.h"
#include "sort/runs/block_packer.h"
#include "vortex/detail/merge/merge_frontier.h"

namespace vortex { inline namespace v0 {

namespace {

// Merges of fewer runs at a time take so much more at most, that more threads have a part of each.
constexpr std::uint64_t kMoreMerged = 4;

// A disk whose requests are expensive is slower than two threads.
unsigned threads_of_pass(const RecordPlan& plan) noexcept {
  if (!plan.request.runs_in_parts || plan.prefetch == PrefetchKind::kStriped) return 1;
  return plan.request_cost_bytes < kExpensiveRequest ? plan.threads : std::min(plan.threads, 2U);
}

// Each part packs its blocks, and unpacks those that it reads, in what is planned for both, beside
// what other runs are packed with, and in the scratch.
bool packers_fit(const RecordPlan& plan, unsigned merges) {
  if (plan.compression == RunCompression::kNever) return true;
  const std::uint64_t packer = BlockPacker::memory_bytes(plan.block_bytes);
  return (2 * std::uint64_t{merges} + 1) * packer <=
         plan.packing_memory_bytes + plan.formation.scratch_bytes;
}

}  // namespace

unsigned RecordPlan::run_parts(std::uint64_t runs) const {
  const std::size_t of_one = blocks_of_part(runs);
  return detail::threads_that_fit(threads_of_pass(*this), [&](unsigned merges) {
    return merges * of_one <= merging_blocks() && packers_fit(*this, merges);
  });
}

// Runs that each of such merges can take at a time.
std::uint64_t RecordPlan::runs_of_parts(unsigned merges) const {
  std::uint64_t low = 0, high = merging_blocks() / merges + 1;  // low fits, and high does not
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (merges * blocks_of_part(middle) <= merging_blocks() ? low : high) = middle;
  }
  return low;
}

std::uint64_t RecordPlan::pass_order(std::uint64_t runs, std::uint64_t most) const {
  const std::uint64_t largest = largest_merge_order();
  if (largest < 2 || runs <= most) return largest;
  const MergeCost least = cost_of_passes(runs, most, largest);
  const auto order_of = [&](unsigned merges) { return std::min(largest, runs_of_parts(merges)); };
  const unsigned merges = detail::threads_that_fit(threads_of_pass(*this), [&](unsigned some) {
    if (order_of(some) < 2 || !packers_fit(*this, some)) return false;
    const MergeCost cost = cost_of_passes(runs, most, order_of(some));
    return cost.passes == least.passes && cost.merged <= least.merged + least.merged / kMoreMerged;
  });
  return merges == 1 ? largest : order_of(merges);
}

}}  // namespace vortex::v0
