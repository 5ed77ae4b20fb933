// Standard input, output and error of a program that was started without them.
#pragma once

namespace vortex::cli {

// A file that is opened while descriptor 1 or 2 is closed would become standard output or error,
// and get messages between its records. Puts something else there: what fails, as a closed
// descriptor does; but messages to nobody are no error. To be called first of all.
void occupy_closed_standard_descriptors();

}  // namespace vortex::cli
