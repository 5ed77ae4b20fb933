// Prints the lines of a text in order, however long the text is, as `fold -b -w 80 | sort` does:
// lines become records of fixed width, which a Sorter takes and gives back through one pointer.
//
//   g++ -std=c++20 -O2 sort_lines.cc $(pkg-config --cflags --libs vortex) -o sort_lines
//   ./sort_lines FILE [MIB_OF_MEMORY]
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/sorter.h"

namespace {

constexpr std::size_t kWidth = 80;

struct Line {
  char text[kWidth];  // zeros behind it
};

struct ByBytes {
  bool operator()(const Line& a, const Line& b) const noexcept {
    return std::memcmp(a.text, b.text, kWidth) < 0;
  }
};

using LineSorter = vortex::Sorter<Line, ByBytes>;

void push_lines(const char* path, LineSorter& sorter) {
  const vortex::FileReader<char> file(path);
  const char* const end = file.data() + file.size();
  for (const char* at = file.data(); at < end;) {
    Line line{};
    std::size_t length = 0;
    while (length < kWidth && at < end && *at != '\n') line.text[length++] = *at++;
    sorter.push(line);
    if (at < end && *at == '\n') ++at;
  }
}

void print_lines(const LineSorter& sorter) {
  const Line* const lines = sorter.data();
  for (std::uint64_t i = 0; i < sorter.size(); ++i) {
    // stdio copies into its own buffer, so no system call meets the sorter's memory.
    std::printf("%.*s\n", static_cast<int>(kWidth), lines[i].text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s FILE [MIB_OF_MEMORY]\n", argv[0]);
    return 2;
  }
  const std::uint64_t mib = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 64;
  try {
    LineSorter sorter({.memory_bytes = mib << 20});
    push_lines(argv[1], sorter);
    sorter.sort();
    print_lines(sorter);
    std::fprintf(stderr, "%llu lines, %llu runs on disk\n",
                 static_cast<unsigned long long>(sorter.size()),
                 static_cast<unsigned long long>(sorter.counts().runs));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  return std::ferror(stdout) != 0 ? 2 : 0;
}
