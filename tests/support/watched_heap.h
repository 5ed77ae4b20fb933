// A heap that ends the process when it is called inside a fault: a fault may have interrupted
// malloc itself. It takes the place of the program's, so one source file of a program includes it,
// and the program is listed in test_own_heap.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tests/support/sanitizers.h"

#if !defined(VORTEX_TEST_ASAN) && !defined(VORTEX_TEST_TSAN) && defined(__GLIBC__)
#define VORTEX_TEST_OWN_HEAP 1
#endif

namespace vortex::test {

#ifdef VORTEX_TEST_OWN_HEAP
inline constexpr bool kWatchedHeap = true;
#else
inline constexpr bool kWatchedHeap = false;
#endif
inline constexpr char kNoWatchedHeap[] = "the heap of this library of C is not replaced";

inline constexpr int kHeapWasCalled = 66;  // exit status

// Set around the instructions that fault; volatile, since the compiler sees no reader between them.
// Initial TLS, like the library's own.
__attribute__((tls_model("initial-exec"))) inline constinit thread_local volatile bool faulting =
    false;
inline constinit thread_local std::size_t allocations = 0;

// The same for all threads: what a fault waits for may not need the heap, either.
inline constinit std::atomic<bool> all_threads_faulting{false};

inline void check_heap_call() noexcept {
  if (!faulting && !all_threads_faulting.load(std::memory_order_relaxed)) return;
  constexpr char kText[] = "the heap was called inside a fault\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(kHeapWasCalled);
}

inline void check_allocation() noexcept {
  ++allocations;
  check_heap_call();
}

// While it lives, no thread of the process may call the heap.
class HeapAtRest {
 public:
  HeapAtRest() noexcept { all_threads_faulting.store(true); }
  ~HeapAtRest() { all_threads_faulting.store(false); }
  HeapAtRest(const HeapAtRest&) = delete;
  HeapAtRest& operator=(const HeapAtRest&) = delete;
};

}  // namespace vortex::test

#ifdef VORTEX_TEST_OWN_HEAP

// glibc's allocator under the names that it keeps for this purpose.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;
void __libc_free(void*) noexcept;
// NOLINTEND(bugprone-reserved-identifier)

// The C++ operators call these.
void* malloc(std::size_t bytes) noexcept {
  vortex::test::check_allocation();
  return __libc_malloc(bytes);
}
void free(void* memory) noexcept {
  vortex::test::check_heap_call();
  __libc_free(memory);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  vortex::test::check_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  vortex::test::check_allocation();
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  vortex::test::check_allocation();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  vortex::test::check_allocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  vortex::test::check_allocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

#endif
