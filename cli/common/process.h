// What a program is started with, and how it ends when nobody reads its output any more.
#pragma once

#include <exception>
#include <string>

namespace vortex::cli {

// A file that is opened while descriptor 1 or 2 is closed would become standard output or error,
// and get messages between its records. Puts something else there: what fails, as a closed
// descriptor does; but messages to nobody are no error, unless they must be told. To be called
// first of all.
void occupy_closed_standard_descriptors(bool messages_must_be_told);

// Returns what standard input has from where it stands. Blocks. Throws std::system_error.
std::string rest_of_standard_input();

// Raises the soft limit of open files: files that are merged are open at once, and the usual limit
// is for programs that use select(2).
void allow_many_open_files();

// Ends the process by SIGPIPE, without a word, when the error is a broken pipe, as a program ends
// that writes to it plainly: `vortex-sort file | head`. Returns when the error is another one, or
// when whoever started the program ignores or blocks that signal and so wants to read of it.
void end_process_at_broken_pipe(const std::exception& exception) noexcept;

}  // namespace vortex::cli
