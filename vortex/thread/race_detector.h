// Tells the thread sanitizer of a program what this library, which may be built without it, orders.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define VORTEX_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VORTEX_THREAD_SANITIZER
#endif
#endif

#ifdef VORTEX_THREAD_SANITIZER
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

extern "C" {
// The sanitizer's runtime has these, where the program has that.
__attribute__((weak)) void __tsan_acquire(void* at);  // NOLINT: their names
__attribute__((weak)) void __tsan_release(void* at);  // NOLINT
}

namespace vortex { inline namespace v0 {

// The sanitizer sees only the atomic operations of code that was built with it. To what happens
// before a note_released() it adds nothing; what happens after a note_acquired() of the same place
// in another thread is ordered behind it. Called beside each atomic operation that hands something
// from one thread to another, they cost a test of a pointer elsewhere. May be called inside a
// fault.
inline void note_acquired(const void* at) noexcept {
  if (__tsan_acquire != nullptr) __tsan_acquire(const_cast<void*>(at));
}
inline void note_released(const void* at) noexcept {
  if (__tsan_release != nullptr) __tsan_release(const_cast<void*>(at));
}

// A race detector does not know that whoever touched the page sleeps until it is woken, and that
// the kernel orders the two.
class OrderedByKernel {
 public:
#ifdef VORTEX_THREAD_SANITIZER
  OrderedByKernel() noexcept {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~OrderedByKernel() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  OrderedByKernel() noexcept {}
  ~OrderedByKernel() {}
#endif
  OrderedByKernel(const OrderedByKernel&) = delete;
  OrderedByKernel& operator=(const OrderedByKernel&) = delete;
};

}}  // namespace vortex::v0
