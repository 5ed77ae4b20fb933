// How the C interface says what a sort of much data may use, and stops it.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/memory_budget.h"
#include "vortex/sort_resources.h"

struct vtx_stop : vortex::capi::Handle {
  void give_to(std::stop_token& option) const noexcept { option = source.get_token(); }

  std::stop_source source;
};

struct vtx_budget : vortex::capi::Handle {
  explicit vtx_budget(std::uint64_t bytes) : shared(vortex::MemoryBudget::make(bytes)) {}

  void give_to(std::shared_ptr<vortex::MemoryBudget>& option) const noexcept { option = shared; }

  // Sorts hold it as well, so that the handle may be closed before they end.
  const std::shared_ptr<vortex::MemoryBudget> shared;
};

namespace vortex { inline namespace v0 { namespace capi {

// Throws Error(EINVAL) for names that are NULL and options that do not exist.
SortResources sort_resources_of(const vtx_sort_resources* given);

}}}  // namespace vortex::v0::capi
