// Sorts vectors where they are: numbers, and records by one of their members.
//
//   g++ -std=c++20 -O2 sort_vector.cc $(pkg-config --cflags --libs vortex-arrays) -o sort_vector
//   ./sort_vector
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "vortex/sort.h"

namespace {

struct Item {
  std::uint32_t id;
  float price;
};

}  // namespace

int main() {
  std::vector<std::uint64_t> numbers(3'000'000);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) numbers[i] = i * 0x9E3779B97F4A7C15;
  vortex::sort(std::span(numbers));

  std::vector<Item> items{{1, 9.5F}, {2, -1.0F}, {3, 9.5F}, {4, 120.0F}};
  vortex::sort(std::span(items), [](const Item& item) { return item.price; },
               {.order = vortex::Order::kDescending});

  std::printf("%llu ... %llu\n", static_cast<unsigned long long>(numbers.front()),
              static_cast<unsigned long long>(numbers.back()));
  for (const Item& item : items) std::printf("item %u costs %g\n", item.id, item.price);
  return 0;
}
