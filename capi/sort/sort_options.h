// How the C interface describes sorts: what a sort of much data may use, and what stops it;
// records; lines.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "capi/stream/handle.h"
#include "vortex/c.h"
#include "vortex/line_sort.h"
#include "vortex/memory_budget.h"
#include "vortex/record_order.h"
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

// Throws Error(EINVAL) that names the key, the record's length and the limit.
RecordFormat record_format_of(const vtx_record_format* format);

// Both take NULL for the bytes of whole lines, and throw Error: EINVAL for what is no key,
// separator or framing, ENOENT for a locale that is not there.
LineOrder line_order_of(const vtx_line_format* format, bool unique);
RecordFraming line_framing_of(const vtx_line_format* format);

}}}  // namespace vortex::v0::capi
