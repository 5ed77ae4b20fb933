#include "cli/common/standard_descriptors.h"
#include "cli/verbs/command_line.h"

int main(int argc, char** argv) {
  vortex::cli::occupy_closed_standard_descriptors();
  return vortex::cli::run(argc, argv);
}
