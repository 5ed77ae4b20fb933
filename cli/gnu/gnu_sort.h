// The program `vortex-sort`, which understands the command line of GNU sort.
#pragma once

namespace vortex::cli {

// Sorts, merges or checks as the arguments say and returns GNU sort's exit code: 0, 1 for what is
// not sorted, 2 for an error, which is told on stderr behind the program's name as it was called.
// Throws nothing.
int gnu_sort(int argc, char** argv) noexcept;

}  // namespace vortex::cli
