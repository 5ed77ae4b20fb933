// vortex sort --lines and --csv.
#pragma once

#include "cli/verbs/verbs.h"

namespace vortex::cli {

// sort() of options whose `lines` are wanted.
int sort_lines(const SortOptions& options);

}  // namespace vortex::cli
