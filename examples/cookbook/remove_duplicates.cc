// Leaves each number of a file once, in order, however large the file is.
//
//   g++ -std=c++20 -O2 remove_duplicates.cc $(pkg-config --cflags --libs vortex) -o
//   remove_duplicates
//   ./remove_duplicates NUMBERS DISTINCT
#include <cstdint>
#include <cstdio>

#include "vortex/error.h"
#include "vortex/external_sort.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s NUMBERS DISTINCT\n", argv[0]);
    return 2;
  }
  try {
    const auto report =
        vortex::external_sort<std::uint64_t>({.inputs = {argv[1]},
                                              .output = argv[2],
                                              .unique = true,
                                              .resources = {.memory_bytes = 64 << 20}});
    std::printf("%llu of %llu numbers are left\n",
                static_cast<unsigned long long>(report.records_out),
                static_cast<unsigned long long>(report.records_in));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
