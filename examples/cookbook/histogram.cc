// Counts how often each byte comes out of a pipe, whose length nobody knows before its end.
//
//   g++ -std=c++20 -O2 histogram.cc $(pkg-config --cflags --libs vortex) -o histogram
//   command | ./histogram
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "vortex/error.h"
#include "vortex/file_reader.h"

int main(int /*argc*/, char** argv) {
  try {
    const vortex::FileReader<unsigned char> in(STDIN_FILENO);
    const unsigned char* const bytes = in.data();
    std::array<std::uint64_t, 256> counts{};
    // Waits until the next block is full, or the pipe at its end.
    for (std::uint64_t at = 0, end = 0; (end = in.readable_bytes(at)) > at; at = end) {
      for (std::uint64_t i = at; i < end; ++i) ++counts[bytes[i]];
    }
    for (std::size_t value = 0; value < counts.size(); ++value) {
      if (counts[value] != 0) {
        std::printf("%3zu %llu\n", value, static_cast<unsigned long long>(counts[value]));
      }
    }
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
