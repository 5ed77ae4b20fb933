// guarded(): a call that returns the error of a stream that is touched inside it.
#pragma once

#include <setjmp.h>

#include <atomic>
#include <utility>

#include "vortex/detail/stream/export.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

struct HandlerStack;
struct ServiceFrame;

// One guarded() call of a thread. `serving` is the region that the thread was inside of when it
// began: those nested deeper are abandoned when control comes back here. `stack` is the stack of
// the library's that it lies on.
struct VORTEX_EXPORT GuardFrame {
  GuardFrame() noexcept;
  ~GuardFrame();
  GuardFrame(const GuardFrame&) = delete;
  GuardFrame& operator=(const GuardFrame&) = delete;

  // Why control came back early, or why a system call of the body failed (see below).
  Failure result() const noexcept;

  sigjmp_buf target;
  Failure failure;
  GuardFrame* outer;
  ServiceFrame* serving;
  HandlerStack* stack;
  bool counted;
};

// Runs `body()`. When a fault that a stream cannot serve happens in it on this thread, control
// leaves the body at the faulting instruction and the stream's failure is returned; otherwise the
// result converts to false. Exceptions of the body pass through.
//
// When control leaves like that, the destructors of objects inside the body do NOT run (as with
// longjmp, which it is): keep what owns memory or locks outside. Guarded scopes nest; the innermost
// takes the failure. Costs nothing per fault, and some 20 ns per call. Does not allocate.
//
// Under the engine userfaultfd a fault of the kernel's on behalf of a system call ends the call,
// not the body: it returns EFAULT or a short count, the body goes on, and the failure is returned
// when the body ends.
template <typename Body>
[[nodiscard]] Failure guarded(Body&& body) {
  GuardFrame frame;
  // The mask is not saved, which would be a system call: the handler restores that of the code it
  // interrupted. The fences keep the body's accesses inside: the compiler knows no other reason.
  if (sigsetjmp(frame.target, 0) == 0) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::forward<Body>(body)();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  return frame.result();
}

}}  // namespace vortex::v0
