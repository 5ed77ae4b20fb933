// The limit of open files.
#pragma once

namespace vortex::cli {

// Inputs take three descriptors each, and the usual soft limit is for programs that use select(2).
void allow_many_open_files();

}  // namespace vortex::cli
