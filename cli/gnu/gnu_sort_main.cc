#include "cli/common/standard_descriptors.h"
#include "cli/gnu/gnu_sort.h"

int main(int argc, char** argv) {
  vortex::cli::occupy_closed_standard_descriptors();
  return vortex::cli::gnu_sort(argc, argv);
}
