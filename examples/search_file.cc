// Prints the lines of a text that contain a word, as `grep -F` does: strstr() over the whole file.
//
//   g++ -std=c++20 -O2 search_file.cc $(pkg-config --cflags --libs vortex) -o search_file
//   ./search_file [-v] WORD FILE
//
// With -v it says how the file was read, and what to do where much of it was read twice.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "vortex/error.h"
#include "vortex/file_reader.h"

int main(int argc, char** argv) {
  const bool verbose = argc > 1 && std::strcmp(argv[1], "-v") == 0;
  if (argc != (verbose ? 4 : 3)) {
    std::fprintf(stderr, "usage: %s [-v] WORD FILE\n", argv[0]);
    return 2;
  }
  const char* const word = argv[argc - 2];
  bool found = false;
  try {
    // Two blocks back: a line may begin before the block in which its word is found.
    vortex::FileReader<char> file(argv[argc - 1], {.comeback_blocks = 2});
    const char* const text = file.data();
    const char* const end = text + file.size();
    // The file is one string: zeros follow its last byte.
    for (const char* at = text; at < end && (at = std::strstr(at, word)) != nullptr;) {
      const char* line = at;
      while (line > text && line[-1] != '\n') --line;
      while (at < end && *at != '\n') ++at;
      found = true;
      for (const char* c = line; c < at; ++c) std::putchar(*c);
      std::putchar('\n');
      if (at < end) ++at;  // an empty word is found at the end of the line, too
    }
    if (verbose) {
      const vortex::FileStatistics read = file.statistics();
      std::fprintf(stderr, "read %.1f MiB in %llu requests, %.1f MiB of it again; %llu walks\n",
                   static_cast<double>(read.source.bytes) / (1 << 20),
                   static_cast<unsigned long long>(read.source.requests),
                   static_cast<double>(read.any_order.reread_bytes) / (1 << 20),
                   static_cast<unsigned long long>(read.any_order.cursors));
      if (!read.advice.empty()) std::fprintf(stderr, "%s\n", read.advice.c_str());
    }
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  return found ? 0 : 1;
}
