// Sorts a file of structs that is larger than memory, by a comparator.
//
//   g++ -std=c++20 -O2 sort_trades.cc $(pkg-config --cflags --libs vortex) -o sort_trades
//   ./sort_trades TRADES SORTED
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "vortex/error.h"
#include "vortex/external_sort.h"

namespace {

struct Trade {
  char symbol[8];
  std::uint64_t time;
  double price;
};

bool earlier(const Trade& a, const Trade& b) {
  if (const int order = std::memcmp(a.symbol, b.symbol, sizeof a.symbol)) return order < 0;
  return a.time < b.time;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TRADES SORTED\n", argv[0]);
    return 2;
  }
  try {
    const auto report = vortex::external_sort<Trade>(
        {.inputs = {argv[1]}, .output = argv[2], .resources = {.memory_bytes = 64 << 20}}, earlier);
    std::printf("%llu trades, %llu runs on disk\n",
                static_cast<unsigned long long>(report.records_out),
                static_cast<unsigned long long>(report.runs));
  } catch (const vortex::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
  return 0;
}
