// How a signal that the trampoline found to be ours reaches the code that serves it.
#pragma once

#include <signal.h>

namespace vortex::inline v0 {

// An engine is called by the trampoline, with the kernel's arguments, for a fault in one of our
// regions, and calls `serve_pinned_fault` on the same thread before it returns.
struct FaultEngine {
  // Prepares for deliveries. May change the process's SIGSEGV action, which the dispatcher
  // overwrites with the trampoline at once. Throws Error.
  void (*prepare)();
  void (*deliver)(int signal, siginfo_t* info, void* context) noexcept;
  // Whether the action is the engine's own handler, on behalf of somebody else: the engine cannot
  // serve both.
  bool (*owns)(const struct sigaction& action) noexcept;
};

const FaultEngine& native_engine() noexcept;
#ifdef VORTEX_WITH_LIBSIGSEGV
const FaultEngine& libsigsegv_engine() noexcept;
#endif

// Whether the trampoline recorded a fault that this thread has to serve.
bool has_pinned_fault() noexcept;

// Serves the fault that the trampoline recorded for this thread. Returns after the access has
// become possible, or does not return (a guarded scope takes over), or the process ends.
void serve_pinned_fault() noexcept;

}  // namespace vortex::inline v0
