// Tells the thread sanitizer of a program what this library, which may be built without it, orders.
#pragma once

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

}}  // namespace vortex::v0
