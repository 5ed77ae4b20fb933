// Joins two files of rows that are sorted by their keys: every pair of rows with equal keys.
//
//   g++ -std=c++20 -O2 join_files.cc $(pkg-config --cflags --libs vortex) -o join_files
//   ./join_files LEFT RIGHT JOINED
#include <cstdint>
#include <cstdio>

#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

namespace {

struct Row {
  std::uint64_t key;
  std::uint64_t value;
};

struct JoinedRow {
  std::uint64_t key;
  std::uint64_t left;
  std::uint64_t right;
};

// Returns how many rows it has written.
std::uint64_t join(const Row* left, const Row* left_end, const Row* right, const Row* right_end,
                   JoinedRow* out) {
  JoinedRow* const begin = out;
  for (; left < left_end; ++left) {
    while (right < right_end && right->key < left->key) ++right;
    for (const Row* row = right; row < right_end && row->key == left->key; ++row) {
      *out++ = {left->key, left->value, row->value};
    }
  }
  return out - begin;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s LEFT RIGHT JOINED\n", argv[0]);
    return 2;
  }
  try {
    const vortex::FileReader<Row> left(argv[1]);
    const vortex::FileReader<Row> right(argv[2]);
    vortex::FileWriter<JoinedRow> joined(argv[3]);
    joined.finish(join(left.data(), left.data() + left.size(), right.data(),
                       right.data() + right.size(), joined.data()));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
