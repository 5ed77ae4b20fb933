// What a thread does between two looks at a word that another thread is about to change.
#pragma once

namespace vortex::inline v0 {

// Tells the processor that this is a loop of waiting, which leaves more of a core to its other
// thread and makes the end of the loop cheaper.
inline void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace vortex::inline v0
