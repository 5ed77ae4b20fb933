// Compresses a file with one call of zstd, as if all of it lay in memory.
//
//   g++ -std=c++20 -O2 compress_file.cc $(pkg-config --cflags --libs vortex libzstd) -o
//   compress_file
//   ./compress_file FILE FILE.zst
#include <zstd.h>

#include <cstddef>
#include <cstdio>

#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FILE FILE.zst\n", argv[0]);
    return 2;
  }
  try {
    // Matches lie up to 2 MiB back at this level; so far the blocks need not be read again.
    const vortex::FileReader<char> in(argv[1], {.comeback_blocks = 4});
    vortex::FileWriter<char> out(argv[2]);
    const std::size_t bytes = ZSTD_compress(out.data(), ZSTD_compressBound(in.size()),  //
                                            in.data(), in.size(), /*level=*/3);
    if (ZSTD_isError(bytes) != 0) {
      std::fprintf(stderr, "%s: %s\n", argv[0], ZSTD_getErrorName(bytes));
      return 1;
    }
    out.finish(bytes);
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
