// Plans for files: little memory where there is little to sort, more where they are merged.
#include <algorithm>
#include <cerrno>
#include <optional>

#include "sort/merge/merge_passes.h"
#include "sort/plan/least_memory.h"
#include "sort/plan/record_plan.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

bool merges_inputs(const RecordPlan& plan) {
  return plan.plain_merge_order() >= 2 && plan.largest_merge_order() >= 2;
}

// With the blocks that a sort would have, or smaller ones, of which more fit.
std::optional<RecordPlan> try_input_merge(SortPlanRequest request) {
  RecordPlan plan = plan_sort(request);
  if (merges_inputs(plan)) return plan;
  if (request.block_bytes != 0) return std::nullopt;
  request.block_bytes = plan.block_bytes / 2;
  for (; request.block_bytes >= std::max(kMinBlockBytes, request.record_bytes);
       request.block_bytes /= 2) {
    try {
      plan = plan_sort(request);
      if (merges_inputs(plan)) return plan;
    } catch (const Error&) {
      // Too small: more blocks on disk to remember than there is memory for.
      break;
    }
  }
  return std::nullopt;
}

}  // namespace

RecordPlan plan_thriftily(const SortPlanRequest& request) {
  constexpr std::uint64_t kLittle = std::uint64_t{16} << 20;
  if (request.bytes && *request.bytes < request.memory_bytes / 8) {
    SortPlanRequest smaller = request;
    smaller.memory_bytes = std::min(request.memory_bytes, std::max(4 * *request.bytes, kLittle));
    try {
      const RecordPlan plan = plan_sort(smaller);
      if (plan.in_memory()) return plan;
    } catch (const Error&) {
      // Long records: the whole memory will do.
    }
  }
  return plan_sort(request);
}

namespace {

RecordPlan plan_of_input_merge(RecordPlan plan, std::uint64_t inputs) {
  plan.merged_inputs = inputs;
  plan.reader = plan.plain_reader();
  plan.writer = plan.plain_writer();
  plan.run_write_behind = plan.writer.write_behind;
  const std::uint64_t order = plan.plain_merge_order();
  plan.runs = detail::units_for(inputs, order);
  plan.merge_order =
      plan.runs > 1 ? smallest_merge_order(plan.runs, plan.largest_merge_order()) : 0;
  plan.passes = 1 + (plan.runs > 1 ? merge_passes(plan.runs, plan.merge_order) : 0);
  return plan;
}

// None: the memory is too little, or `error` says what else is.
std::optional<RecordPlan> try_inputs(const SortPlanRequest& request, std::uint64_t inputs,
                                     std::optional<Error>& error) {
  try {
    const RecordPlan thrifty = plan_thriftily(request);
    if (thrifty.plain_merge_order() >= inputs) return plan_of_input_merge(thrifty, inputs);
    if (const auto plan = try_input_merge(request)) return plan_of_input_merge(*plan, inputs);
  } catch (const Error& refusal) {
    error = refusal;
  }
  return std::nullopt;
}

}  // namespace

RecordPlan plan_input_merge(const SortPlanRequest& request, std::uint64_t inputs) {
  std::optional<Error> error;
  if (const auto plan = try_inputs(request, inputs, error)) return *plan;
  if (error && error->code().value() != ENOMEM) throw *error;
  // Sorting takes less than merging two inputs does.
  const std::uint64_t enough = least_memory(request.memory_bytes, [&](std::uint64_t bytes) -> bool {
    SortPlanRequest larger = request;
    larger.memory_bytes = bytes;
    std::optional<Error> ignored;
    return try_inputs(larger, inputs, ignored).has_value();
  });
  if (enough == 0 && error) throw *error;
  throw Error(
      ENOMEM,
      "merging with " + format_bytes(request.memory_bytes) + " of memory: no two inputs fit" +
          (enough == 0 ? std::string() : "; at least " + format_bytes(enough) + " are needed"));
}

}}  // namespace vortex::v0
