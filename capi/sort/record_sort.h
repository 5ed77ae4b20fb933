// How the C interface describes records.
#pragma once

#include "vortex/c.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 { namespace capi {

// Throws Error(EINVAL) that names the key, the record's length and the limit.
RecordFormat record_format_of(const vtx_record_format* format);

}}}  // namespace vortex::v0::capi
