// How the C interface says what a sort of much data may use, and stops it.
#pragma once

#include <stop_token>

#include "capi/handle.h"
#include "vortex/c.h"
#include "vortex/sort_resources.h"

struct vtx_stop : vortex::capi::Handle {
  std::stop_source source;
};

namespace vortex::inline v0::capi {

// Throws Error(EINVAL) for names that are NULL and options that do not exist.
SortResources sort_resources_of(const vtx_sort_resources* given);

}  // namespace vortex::inline v0::capi
