// Warnings about the keys of a sort, as `sort --debug` gives them.
#pragma once

#include <string>
#include <vector>

#include "lines/fields/key_locale.h"
#include "vortex/line_key.h"

namespace vortex::cli {

// The warnings have GNU sort's words and order, the locale first. The locale is the one that orders
// the lines; `locale_failed`: another was asked for. Throws Error(EINVAL) for keys that
// line_order() refuses.
std::vector<std::string> key_warnings(const LineKeyOptions& options, const KeyLocale& locale,
                                      bool locale_failed);

}  // namespace vortex::cli
