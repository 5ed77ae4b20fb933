// Warnings about the keys of a sort, as `sort --debug` gives them.
#pragma once

#include <locale.h>

#include <string>
#include <vector>

#include "vortex/line_sort.h"

namespace vortex::cli {

// In GNU sort's words and order, the locale first. The locale is the one of the options, which
// orders the lines; `locale_failed`: another was asked for. Throws Error(EINVAL) for keys that
// line_order() refuses.
std::vector<std::string> key_warnings(const LineKeyOptions& options, ::locale_t locale,
                                      bool locale_failed);

}  // namespace vortex::cli
