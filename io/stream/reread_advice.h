// A word to those whose order of access makes a file be read again and again.
#pragma once

#include <cstddef>
#include <string>

#include "vortex/file_reader.h"

namespace vortex { inline namespace v0 {

// Reading again works, and so hides mistakes: two passes where one would do, too little memory, or
// blocks that are too large for touches in random places. Empty where it is a minor part.
std::string reread_advice(const FileSourceStatistics& reads, const AnyOrderStatistics& order,
                          std::size_t pool_bytes);

}}  // namespace vortex::v0
