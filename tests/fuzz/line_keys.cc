// Looks for an order of lines, or lines, that break the keys made of them.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/lines/fuzzed_keys.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const char* const problem =
      vortex::test::problem_with_keys({reinterpret_cast<const char*>(data), size});
  if (problem != nullptr) {
    std::fprintf(stderr, "wrong: %s\n", problem);
    std::abort();
  }
  return 0;
}
