// How the programs end when nobody reads their output any more.
#pragma once

#include <exception>

namespace vortex::cli {

// Ends the process by SIGPIPE, without a word, when the error is a broken pipe, as a program ends
// that writes to it plainly: `vortex-sort file | head`. Returns when the error is another one, or
// when whoever started the program ignores or blocks that signal and so wants to read of it.
void end_process_at_broken_pipe(const std::exception& exception) noexcept;

}  // namespace vortex::cli
