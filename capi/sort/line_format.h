// How the C interface describes lines.
#pragma once

#include "vortex/c.h"
#include "vortex/line_sort.h"

namespace vortex { inline namespace v0 { namespace capi {

// Both take NULL for the bytes of whole lines, and throw Error: EINVAL for what is no key,
// separator or framing, ENOENT for a locale that is not there.
LineOrder line_order_of(const vtx_line_format* format, bool unique);
RecordFraming line_framing_of(const vtx_line_format* format);

}}}  // namespace vortex::v0::capi
