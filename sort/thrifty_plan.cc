#include "sort/thrifty_plan.h"

#include <algorithm>

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

}  // namespace vortex
