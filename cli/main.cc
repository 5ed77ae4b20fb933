#include "cli/command_line.h"
#include "cli/standard_descriptors.h"

int main(int argc, char** argv) {
  vortex::cli::occupy_closed_standard_descriptors();
  return vortex::cli::run(argc, argv);
}
