// The last words of a process whose memory can no longer be trusted.
#pragma once

#include <string_view>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Writes the line to stderr with one write(2). Async-signal-safe; keeps errno. Exported for
// debuggers, which stop here (docs/limits.md, "Debuggers").
VORTEX_EXPORT void write_line(std::string_view line) noexcept;

// write_line, then abort(): for broken contracts that cannot be reported to anybody, such as a pool
// destroyed under a stream that uses it.
[[noreturn]] void fatal(std::string_view line) noexcept;

}}  // namespace vortex::v0
