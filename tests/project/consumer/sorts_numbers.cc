// A program of somebody who builds without exceptions and run-time types, and optimises when
// linking: it sorts an array, and has folders of its own that are called as the library's are.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <vortex/sort.h>

#include "io/request.h"
#include "sort/sort.h"

int main() {
  std::vector<std::uint32_t> numbers(100'000);
  for (std::uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = i * 2654435761U;
  vortex::sort(numbers);
  bool good = consumer::kRequest + consumer::kSort == 3;
  for (std::size_t i = 1; i < numbers.size(); ++i) good = good && numbers[i - 1] < numbers[i];
  std::puts(good ? "numbers are sorted" : "numbers are not sorted");
  return good ? 0 : 1;
}
