#include <sigsegv.h>

#include <cerrno>

#include "vortex/engine/fault_engine.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

// libsigsegv's own signal function, read back after it installed itself. The trampoline stands in
// front of it and calls it with the kernel's arguments; it recovers the address for each platform
// it knows and calls on_fault. It never sees a fault that is not ours: for one, it would restore
// the default action and lose the handler that was there before.
struct sigaction libsigsegv_action;

int on_fault(void* /*address*/, int /*serious*/) {
  // Without a record the trampoline is not in place yet: prepare() runs on another thread. The
  // instruction faults until it is, and then goes where it should.
  if (has_pinned_fault()) serve_pinned_fault();
  return 1;
}

bool owns(const struct sigaction& action) noexcept {
  const bool with_info = (action.sa_flags & SA_SIGINFO) != 0;
  if (with_info != ((libsigsegv_action.sa_flags & SA_SIGINFO) != 0)) return false;
  return with_info ? action.sa_sigaction == libsigsegv_action.sa_sigaction
                   : action.sa_handler == libsigsegv_action.sa_handler;
}

// A signal that somebody sends between the two steps of an installation, here and in the
// trampoline's, is lost; a fault is not.
void prepare() {
  struct sigaction before {};
  sigaction(SIGSEGV, nullptr, &before);
  if (sigsegv_install_handler(&on_fault) != 0) {
    throw Error(ENOTSUP,
                "libsigsegv cannot catch faults on this system; build with -Dengine=native");
  }
  sigaction(SIGSEGV, nullptr, &libsigsegv_action);
  if (owns(before)) {
    // Its one user has been overwritten, which nothing can undo.
    sigsegv_deinstall_handler();
    throw Error(EBUSY,
                "the program handled SIGSEGV with libsigsegv, which has room for one user: build "
                "vortex with -Dengine=native");
  }
}

void deliver(int signal, siginfo_t* info, void* context) noexcept {
  if ((libsigsegv_action.sa_flags & SA_SIGINFO) != 0) {
    libsigsegv_action.sa_sigaction(signal, info, context);
  } else {
    libsigsegv_action.sa_handler(signal);
  }
}

}  // namespace

constinit const FaultEngine kLibsigsegvEngine = {
    .prepare = &prepare, .deliver = &deliver, .owns = &owns};

}}  // namespace vortex::v0
