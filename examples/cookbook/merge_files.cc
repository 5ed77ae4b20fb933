// Merges any number of sorted files of 64-bit numbers into one, with a heap of plain pointers.
//
//   g++ -std=c++20 -O2 merge_files.cc $(pkg-config --cflags --libs vortex) -o merge_files
//   ./merge_files MERGED SORTED...
#include <cstdint>
#include <cstdio>
#include <queue>
#include <vector>

#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace {

struct Rest {
  const std::uint64_t* at;
  const std::uint64_t* end;
};

struct Later {
  bool operator()(const Rest& a, const Rest& b) const { return *a.at > *b.at; }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MERGED SORTED...\n", argv[0]);
    return 2;
  }
  try {
    std::vector<vortex::FileReader<std::uint64_t>> files;
    std::priority_queue<Rest, std::vector<Rest>, Later> rests;
    for (int i = 2; i < argc; ++i) {
      const auto& file = files.emplace_back(argv[i]);
      if (file.size() != 0) rests.push({file.data(), file.data() + file.size()});
    }
    vortex::FileWriter<std::uint64_t> merged(argv[1]);
    std::uint64_t* const begin = merged.data();
    std::uint64_t* out = begin;
    while (!rests.empty()) {
      Rest rest = rests.top();
      rests.pop();
      *out++ = *rest.at++;
      if (rest.at != rest.end) rests.push(rest);
    }
    merged.finish(out - begin);
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
