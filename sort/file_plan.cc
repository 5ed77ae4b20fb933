#include "sort/file_plan.h"

#include <algorithm>
#include <cerrno>

#include "vortex/error.h"

namespace vortex {

SortPlan plan_thriftily(const SortPlanRequest& request) {
  constexpr std::uint64_t kLittle = std::uint64_t{16} << 20;
  if (request.bytes && *request.bytes < request.memory_bytes / 8) {
    SortPlanRequest smaller = request;
    smaller.memory_bytes = std::min(request.memory_bytes, std::max(4 * *request.bytes, kLittle));
    try {
      const SortPlan plan = plan_sort(smaller);
      if (plan.in_memory()) return plan;
    } catch (const Error&) {
      // Long records: the whole memory will do.
    }
  }
  return plan_sort(request);
}

SortPlan plan_input_merge(const SortPlanRequest& request) {
  const auto merges = [](const SortPlan& plan) {
    return plan.plain_merge_order() >= 2 && plan.largest_merge_order() >= 2;
  };
  const SortPlan plan = plan_sort(request);
  if (merges(plan)) return plan;
  SortPlanRequest larger = request;
  while (!merges(plan_sort(larger))) larger.memory_bytes += request.memory_bytes / 16;
  throw Error(ENOMEM, "merging with " + format_bytes(request.memory_bytes) +
                          " of memory: no two inputs fit; at least " +
                          format_bytes(larger.memory_bytes) + " are needed");
}

}  // namespace vortex
