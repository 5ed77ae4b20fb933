// As standard.h, with what most files of the programs include beside it.
#include <fmt/format.h>

#include "standard.h"
