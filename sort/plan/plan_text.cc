#include "sort/plan/plan_text.h"

#include "sort/merge/merge_passes.h"

namespace vortex { inline namespace v0 {

std::string to_string(const SortPlan& plan) {
  PlanText text;
  text.add_size("input", plan.request.bytes);
  text.add("records", format_bytes(plan.request.record_bytes));
  text.add("memory", format_bytes(plan.request.memory_bytes));
  text.add_blocks(plan.pool_blocks, plan.block_bytes);
  text.add_request_cost(plan.request.request_cost_bytes);
  if (plan.merged_inputs != 0) {
    text.add("merging", std::to_string(plan.merged_inputs) + " sorted inputs, at most " +
                            std::to_string(plan.plain_merge_order()) + " at a time");
    text.add("passes", std::to_string(plan.passes));
    if (plan.runs > 1) {
      text.add("then", "the " + std::to_string(plan.runs) + " runs that they make, " +
                           std::to_string(plan.merge_order) + " at a time");
    }
    return text.str();
  }
  text.add("run formation", std::to_string(plan.formation.buckets) + " buckets on " +
                                std::to_string(plan.bucket_blocks) + " blocks, " +
                                format_bytes(plan.formation.scratch_bytes) + " to sort them with");
  text.add("run length", "at least " + format_bytes(plan.least_run_bytes()));
  if (plan.in_memory()) {
    text.add("merging", "none: it fits in memory");
    return text.str();
  }
  if (plan.request.bytes) {
    std::string passes = std::to_string(plan.passes);
    if (plan.passes > 1) {
      const MergePass first = next_merge_pass(plan.runs, plan.merge_order, plan.merge_order);
      if (first.merged < plan.runs) {
        passes += ", the first of " + std::to_string(first.merged) + " runs only";
      }
    }
    text.add("runs", "at most " + std::to_string(plan.runs));
    text.add("passes", passes);
  }
  const MergeBuffers buffers = plan.merge_buffers(plan.merge_order);
  text.add("merge order", std::to_string(plan.merge_order));
  text.add("merge buffers", std::to_string(buffers.read_buffers) + " blocks to read, " +
                                std::to_string(buffers.writer.write_behind) + " requests of " +
                                format_bytes(buffers.writer.request_bytes) + " to write");
  text.add_prefetch(plan.request.prefetch, plan.request.disks);
  text.add_compression(plan.compression);
  return text.str();
}

}}  // namespace vortex::v0
