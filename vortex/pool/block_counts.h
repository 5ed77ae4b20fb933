// Numbers of blocks that callers give as options.
#pragma once

#include <cstddef>
#include <string>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// Throws Error(EINVAL) that names the option, where no pool can have so many blocks. `who` begins
// the message.
VORTEX_EXPORT void expect_block_count(const std::string& who, const char* option,
                                      std::size_t blocks);

}}  // namespace vortex::v0
