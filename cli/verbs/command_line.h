// The command line of the program `vortex`.
#pragma once

namespace vortex::cli {

// Does what the arguments say and returns the exit code. Errors go to stderr, one line each, and
// make it kExitError. Throws nothing.
int run(int argc, char** argv) noexcept;

}  // namespace vortex::cli
