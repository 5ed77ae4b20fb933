#include "cli/command_line.h"

int main(int argc, char** argv) { return vortex::cli::run(argc, argv); }
