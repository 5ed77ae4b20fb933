// Orders of lines in the locale of the environment.
#pragma once

#include "vortex/line_sort.h"

namespace vortex::cli {

// line_order() in the locale that LC_ALL and its like name, or in "C" where that is not installed,
// as in GNU sort. Throws Error.
LineOrder order_in_locale_of_environment(LineKeyOptions keys);

// Bytes of chance, for the seed of orders. Throws Error.
std::array<char, 16> system_random_seed();

}  // namespace vortex::cli
