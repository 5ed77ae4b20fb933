// A heap whose n-th allocation fails, once or from then on. It takes the place of the program's, so
// one source file of a program includes it, and the program is listed in test_own_heap.
#pragma once

#include <cerrno>
#include <cstddef>

#include "tests/support/sanitizers.h"
#include "tests/trust/heap_failure.h"

namespace vortex::test {

inline constinit HeapFailure heap_of_process;
inline constinit HeapFailure* heap_of_program = &heap_of_process;
inline HeapFailure& heap_failure() noexcept { return *heap_of_program; }

}  // namespace vortex::test

#if !defined(VORTEX_TEST_ASAN) && !defined(VORTEX_TEST_TSAN) && defined(__GLIBC__)
// glibc's allocator under the names that it keeps for this purpose.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;
// NOLINTEND(bugprone-reserved-identifier)

// The C++ operators call these.
void* malloc(std::size_t bytes) noexcept {
  return vortex::test::heap_failure().refuses() ? nullptr : __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return vortex::test::heap_failure().refuses() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  return vortex::test::heap_failure().refuses() ? nullptr : __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return vortex::test::heap_failure().refuses() ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  if (vortex::test::heap_failure().refuses()) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif
