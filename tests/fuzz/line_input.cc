// Looks for an input of a sort of lines that is read, or sorted, wrongly.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/lines/fuzzed_input.h"
#include "tests/support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const vortex::test::TemporaryFolder folder;
  const char* const problem = vortex::test::problem_with_input(
      folder.path().string(), {reinterpret_cast<const char*>(data), size});
  if (problem != nullptr) {
    std::fprintf(stderr, "wrong: %s\n", problem);
    std::abort();
  }
  return 0;
}
