// The limit of open files.
#pragma once

namespace vortex::cli {

// Files that are merged are open at once, and the usual soft limit is for programs that use
// select(2).
void allow_many_open_files();

}  // namespace vortex::cli
