// The plan of a sort of lines, told to whoever asks.
#include <string>

#include "lines/job/line_plan.h"
#include "lines/text/line_inputs.h"
#include "sort/job/sort_context.h"
#include "sort/job/sort_files.h"
#include "sort/plan/plan_text.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 {

LineSortPlan plan_line_sort(const LineSortOptions& options) {
  const LineInputs inputs(options);
  const SortFiles files(options);
  const SortContext context(options.resources, files.folders());
  const LinePlan plan = plan_lines(context, inputs.bytes());
  LineSortPlan told;
  told.input_bytes = inputs.bytes();
  told.memory_bytes = plan.memory_bytes;
  told.threads = plan.threads;
  told.request_cost_bytes = plan.request_cost_bytes;
  told.block_bytes = plan.block_bytes;
  told.pool_blocks = plan.pool_blocks;
  told.arena_bytes = plan.arena_bytes;
  told.longest_record = plan.longest_record;
  told.merge_order = plan.most_runs(0);
  if (options.merge_inputs) {
    told.merged_inputs = inputs.size();
    told.inputs_in_blocks = plan.most_inputs();
  }
  told.disks = plan.disks;
  told.prefetch = plan.prefetch;
  told.compression = plan.compression;
  return told;
}

std::string to_string(const LineSortPlan& plan) {
  PlanText text;
  text.add_size("input", plan.input_bytes);
  text.add("memory", format_bytes(plan.memory_bytes));
  text.add_blocks(plan.pool_blocks, plan.block_bytes);
  text.add_request_cost(plan.request_cost_bytes);
  if (plan.merged_inputs != 0) {
    text.add("merging", std::to_string(plan.merged_inputs) + " sorted inputs, at most " +
                            std::to_string(plan.inputs_in_blocks) +
                            " in blocks at a time, more in buffers");
    return text.str();
  }
  text.add("run formation",
           format_bytes(plan.arena_bytes) + " for lines, their keys and their index, " +
               std::to_string(plan.threads) + (plan.threads == 1 ? " thread" : " threads"));
  text.add("longest line", format_bytes(plan.longest_record) + ", key included");
  text.add("merge order", std::to_string(plan.merge_order));
  text.add_prefetch(plan.prefetch, plan.disks);
  text.add_compression(plan.compression);
  return text.str();
}

}}  // namespace vortex::v0
