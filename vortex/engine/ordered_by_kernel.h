// What a race detector has to be told about faults that other threads serve.
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

namespace vortex { inline namespace v0 {

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
