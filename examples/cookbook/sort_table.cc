// Sorts a CSV file that may be larger than memory by a column of numbers, the largest first, and
// keeps its first line at the top. `vortex sort --csv --header 1 -k price:nr TABLE -o SORTED` does
// it by name.
//
//   g++ -std=c++20 -O2 sort_table.cc $(pkg-config --cflags --libs vortex) -o sort_table
//   ./sort_table TABLE COLUMN SORTED
#include <cstdio>
#include <string>

#include "vortex/error.h"
#include "vortex/line_sort.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s TABLE COLUMN SORTED\n", argv[0]);
    return 2;
  }
  try {
    const vortex::LineOrder order = vortex::line_order(
        {.keys = {std::string(argv[2]) + "nr"}, .fields = vortex::FieldRules::kCsv});
    const auto report = vortex::sort_lines({.inputs = {argv[1]},
                                            .output = argv[3],
                                            .framing = vortex::RecordFraming::quoted(),
                                            .order = order,
                                            .header_records = 1,
                                            .resources = {.memory_bytes = 64 << 20}});
    std::printf("%llu rows\n", static_cast<unsigned long long>(report.records_out));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
