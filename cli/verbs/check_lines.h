// vortex check --lines and --csv.
#pragma once

#include "cli/verbs/verbs.h"

namespace vortex::cli {

// check() of options whose `lines` are wanted.
int check_lines(const CheckOptions& options);

}  // namespace vortex::cli
