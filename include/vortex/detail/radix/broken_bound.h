// The end of a sort whose own reckoning is wrong.
#pragma once

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 { namespace detail {

// Writes the line to stderr and aborts: where going on would overwrite memory of others. In every
// build. The lines that say it is a bug in vortex are about bounds that no input should break.
[[noreturn]] VORTEX_EXPORT void broken_bound(const char* line) noexcept;

}}}  // namespace vortex::v0::detail
