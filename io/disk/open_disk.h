// The number of threads that the choice of a backend costs.
#pragma once

#include "io/disk/disk.h"
#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// How many threads a disk that open_disk() makes has, where the options leave its depth open. Opens
// one to find out, with kBest.
VORTEX_EXPORT unsigned threads_of_disk(DiskBackend backend);

}}  // namespace vortex::v0
