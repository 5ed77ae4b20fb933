// Prints the largest K of a file of 64-bit numbers: one call of the standard library.
//
//   g++ -std=c++20 -O2 top_numbers.cc $(pkg-config --cflags --libs vortex) -o top_numbers
//   ./top_numbers NUMBERS K
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "vortex/error.h"
#include "vortex/file_reader.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s NUMBERS K\n", argv[0]);
    return 2;
  }
  try {
    const vortex::FileReader<std::uint64_t> file(argv[1]);
    std::vector<std::uint64_t> top(std::min<std::uint64_t>(std::strtoull(argv[2], nullptr, 10),  //
                                                           file.size()));
    std::partial_sort_copy(file.data(), file.data() + file.size(), top.begin(), top.end(),
                           std::greater<>());
    for (const std::uint64_t number : top) {
      std::printf("%llu\n", static_cast<unsigned long long>(number));
    }
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
