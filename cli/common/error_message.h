// What an exception says to people at a command line.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace vortex::cli {

// One line without the program's name: of a file that cannot be read or written what GNU programs
// say, "write failed: 'standard output': No space left on device", and where there is one the way
// out, but no offsets and blocks. May allocate.
std::string message_for_people(const std::exception& exception);

// Tells it on stderr, behind the program's name, and `way_out` behind it where memory is missing.
// Where there is none for a message either, errno's word is all that is told.
void tell_error(const char* program, const std::exception& exception,
                std::string_view way_out = {}) noexcept;

}  // namespace vortex::cli
