// Prints the lines of a text that contain a word, as `grep -F` does: strstr() over the whole file.
//
//   g++ -std=c++20 -O2 search_file.cc $(pkg-config --cflags --libs vortex) -o search_file
//   ./search_file WORD FILE
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "vortex/error.h"
#include "vortex/file_reader.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s WORD FILE\n", argv[0]);
    return 2;
  }
  bool found = false;
  try {
    // Two blocks back: a line may begin before the block in which its word is found.
    vortex::FileReader<char> file(argv[2], {.comeback_blocks = 2});
    const char* const text = file.data();
    const char* const end = text + file.size();
    // The file is one string: zeros follow its last byte.
    for (const char* at = text; at < end && (at = std::strstr(at, argv[1])) != nullptr;) {
      const char* line = at;
      while (line > text && line[-1] != '\n') --line;
      while (at < end && *at != '\n') ++at;
      found = true;
      for (const char* c = line; c < at; ++c) std::putchar(*c);
      std::putchar('\n');
      if (at < end) ++at;  // an empty word is found at the end of the line, too
    }
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  return found ? 0 : 1;
}
