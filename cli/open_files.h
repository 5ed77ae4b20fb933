// The limit of open files.
#pragma once

namespace vortex::cli {

// Inputs of a merge take two descriptors each, others three, and the usual soft limit is for programs
// that use select(2).
void allow_many_open_files();

}  // namespace vortex::cli
