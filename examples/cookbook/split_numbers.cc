// Divides the numbers of a file into files of about equal lengths, each a range of numbers.
//
//   g++ -std=c++20 -O2 split_numbers.cc $(pkg-config --cflags --libs vortex) -o split_numbers
//   ./split_numbers NUMBERS PREFIX PARTS
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "vortex/error.h"
#include "vortex/external_sort.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s NUMBERS PREFIX PARTS\n", argv[0]);
    return 2;
  }
  try {
    const auto report = vortex::external_partition(
        {.inputs = {argv[1]},
         .prefix = argv[2],
         .format = vortex::RecordFormat(8, {vortex::parse_record_key("0:8:u64")}),
         .parts = std::strtoull(argv[3], nullptr, 10),
         .resources = {.memory_bytes = 64 << 20}});
    for (const vortex::PartReport& part : report.parts) {
      std::printf("%s %llu\n", part.path.c_str(), static_cast<unsigned long long>(part.records));
    }
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
