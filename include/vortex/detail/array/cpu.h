// Which instructions the processor has.
#pragma once

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 { namespace detail {

enum class Isa { kPortable, kAvx2, kAvx512 };

// The best that this processor and its operating system support.
VORTEX_EXPORT Isa best_isa() noexcept;

// The instructions that sorts use: best_isa(), or less where a test or a benchmark has asked for
// less.
VORTEX_EXPORT Isa isa_in_use() noexcept;

// Takes effect for sorts that start later, in the whole process. Returns false, and changes
// nothing, for what the processor does not have.
VORTEX_EXPORT bool use_isa(Isa isa) noexcept;

VORTEX_EXPORT const char* isa_name(Isa isa) noexcept;

}}}  // namespace vortex::v0::detail
