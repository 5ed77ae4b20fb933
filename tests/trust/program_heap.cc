// The heap of a program, or of Python, which loads it first, whose n-th allocation fails as the
// file says that $VORTEX_FAILING_HEAP names: a HeapFailure, which the process shares with a test.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/trust/failing_heap.h"

namespace vortex::test { namespace {

[[gnu::constructor]] void share_with_a_test() {
  const char* const path = std::getenv("VORTEX_FAILING_HEAP");
  const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const shared =
      mmap(nullptr, sizeof(HeapFailure), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared != MAP_FAILED) heap_of_program = static_cast<HeapFailure*>(shared);
}

}  // namespace

}  // namespace vortex::test

// What is constructed before main() ends a program that has no memory for it, as the loader does.
// The linker calls this in its place (--wrap=main); where there is no main(), nobody does.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
[[gnu::weak]] int __real_main(int, char**);
int __wrap_main(int count, char** words) {
  vortex::test::heap_failure().armed = true;
  return __real_main(count, words);
}
}
// NOLINTEND(bugprone-reserved-identifier)
