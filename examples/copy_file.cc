// Copies a file through two pointers.
//
//   g++ -std=c++20 -O2 copy_file.cc $(pkg-config --cflags --libs vortex) -o copy_file
//   ./copy_file FROM TO            ("-" is the standard input or output)
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FROM TO\n", argv[0]);
    return 2;
  }
  const std::string from = argv[1];
  const std::string to = argv[2];
  try {
    using Reader = vortex::FileReader<char>;
    using Writer = vortex::FileWriter<char>;
    const auto in =
        from == "-" ? std::make_unique<Reader>(STDIN_FILENO) : std::make_unique<Reader>(from);
    const auto out =
        to == "-" ? std::make_unique<Writer>(STDOUT_FILENO) : std::make_unique<Writer>(to);
    const char* source = in->data();
    char* target = out->data();
    std::uint64_t i = 0;
    // A pipe tells its length at its end, so ask before each block.
    for (std::uint64_t end = 0; (end = in->readable_bytes(i)) > i;) {
      for (; i < end; ++i) target[i] = source[i];
    }
    out->finish(i);
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
