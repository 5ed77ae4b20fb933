// How the C interface says what a sort in memory does.
#pragma once

#include "vortex/c.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 { namespace capi {

inline SortOptions sort_options_of(const vtx_sort_options* given) noexcept {
  SortOptions options;
  if (given == nullptr) return options;
  if (given->descending != 0) options.order = Order::kDescending;
  options.stable = given->stable != 0;
  options.threads = given->threads;
  return options;
}

}}}  // namespace vortex::v0::capi
