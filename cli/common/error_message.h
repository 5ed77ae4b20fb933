// What an exception says to people at a command line.
#pragma once

#include <exception>
#include <string>

namespace vortex::cli {

// One line without the program's name: of a file that cannot be read or written what GNU programs
// say, "write failed: 'standard output': No space left on device", and where there is one the way
// out, but no offsets and blocks. May allocate.
std::string message_for_people(const std::exception& exception);

}  // namespace vortex::cli
