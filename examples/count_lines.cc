// Counts lines, words and bytes as wc does, with a plain loop over the whole file.
//
//   g++ -std=c++20 -O2 count_lines.cc $(pkg-config --cflags --libs vortex) -o count_lines
//   ./count_lines FILE
#include <cstdint>
#include <cstdio>

#include "vortex/error.h"
#include "vortex/file_reader.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  try {
    const vortex::FileReader<char> file(argv[1]);
    const char* const text = file.data();
    std::uint64_t lines = 0;
    std::uint64_t words = 0;
    bool in_word = false;
    for (std::uint64_t i = 0; i < file.size(); ++i) {
      const char c = text[i];
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      lines += c == '\n';
      words += in_word && space;
      in_word = !space;
    }
    words += in_word;
    std::printf("%llu %llu %llu\n", static_cast<unsigned long long>(lines),
                static_cast<unsigned long long>(words),
                static_cast<unsigned long long>(file.size()));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
