// Names of files on the command line that CLI11 would take for lists.
#pragma once

namespace CLI {
class App;
}

namespace vortex::cli {

// CLI11 takes an operand in square brackets for a list of others, without the brackets and divided
// at commas. Such a name gets "./" in front of it, in `argv`. Values of options keep theirs. The
// first argument is the verb, whose options tell which arguments are values.
void keep_bracketed_names(const CLI::App& program, int argc, char** argv);

}  // namespace vortex::cli
