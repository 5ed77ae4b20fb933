// How a fault in one of our regions reaches the code that serves it.
#pragma once

#include <signal.h>

#include <memory>

#include "vortex/engine/fault_server.h"

namespace vortex { inline namespace v0 {

namespace os {
class Userfaultfd;
}

// Engines by signals are called by the trampoline, with the kernel's arguments, for a fault in one
// of our regions, and call `serve_pinned_fault` on the same thread before they return. The others
// call `serve_elsewhere` on a thread of their own while the toucher sleeps.
struct FaultEngine {
  // Prepares for deliveries. May change the process's SIGSEGV action, which the dispatcher
  // overwrites with the trampoline at once. Throws Error.
  void (*prepare)();

  // Engines by signals only: called as said above.
  void (*deliver)(int signal, siginfo_t* info, void* context) noexcept = nullptr;
  // Whether the action is the engine's own handler, on behalf of somebody else: the engine cannot
  // serve both.
  bool (*owns)(const struct sigaction& action) noexcept = nullptr;

  // The other engines only: has faults in these addresses, bare reservation, delivered. Throws
  // Error.
  void (*admit)(std::byte* begin, std::size_t bytes) = nullptr;
  // See settle_faults().
  void (*settle)() noexcept = nullptr;
  // Ends what prepare() began.
  void (*stop)() noexcept = nullptr;
  // In a forked child: the same, without what the child does not have.
  void (*leave_to_parent)() noexcept = nullptr;

  bool by_signals() const noexcept { return deliver != nullptr; }
};

// ---- For engines by signals.

// Whether the trampoline recorded a fault that this thread has to serve.
bool has_pinned_fault() noexcept;

// Serves the fault that the trampoline recorded for this thread. Returns after the access has
// become possible, or does not return (a guarded scope takes over), or the process ends.
void serve_pinned_fault() noexcept;

inline constexpr FaultEngine kNativeEngine = {
    .prepare = [] {},
    .deliver = [](int, siginfo_t*, void*) noexcept { serve_pinned_fault(); },
    .owns = [](const struct sigaction&) noexcept { return false; },
};
#ifdef VORTEX_WITH_LIBSIGSEGV
extern const FaultEngine kLibsigsegvEngine;
#endif
extern const FaultEngine kUserfaultfdEngine;

// ---- For the others.

// The region that owns the address, pinned; null: nobody's.
Region* pin_region(const std::byte* address) noexcept;

// Serves a fault of another thread, which sleeps, and unpins the region. Where that is impossible,
// or the address is nobody's, the page is poisoned. The caller wakes the thread. False: the fault
// is doubtful and was not served; a thread that still needs it will have it again, without a doubt.
bool serve_elsewhere(Region* region, const Fault& fault,
                     const os::Userfaultfd& userfaultfd) noexcept;

// Returns when every fault that somebody sleeps for has pinned its region. Before a stream that
// goes wakes those inside its faults: one that fails wakes all who sleep for the same page, and the
// faults of theirs that nobody has read are forgotten.
void settle_faults() noexcept;

// What has to follow a bus error.
enum class BusErrorAnswer {
  kOthers,    // it is none of ours
  kRefused,   // the line has been written, and the process has to end
  kTryAgain,  // the access may be made again
};

// For the handler of a bus error, on the thread that made the access. Where serve_elsewhere()
// refused the access, control leaves to the guarded scope, if there is one.
BusErrorAnswer fail_here(std::byte* address, const void* context) noexcept;

// Puts the handler of bus errors, which calls it, in front of the program's. Throws Error.
void install_bus_handler();
// Puts the program's back, unless somebody has come in front of ours and may pass bus errors on.
void remove_bus_handler() noexcept;

// Whether the calling thread is one of the engine's.
bool is_fault_thread() noexcept;

// The thread for which `thread` serves a fault at this moment; 0: it serves none.
std::int32_t served_by(std::int32_t thread) noexcept;

// Whether some thread serves a fault of this one at this moment.
bool being_served(std::int32_t thread) noexcept;

// ---- Which engine a pool is for.

// Decides, with the first pool or stream, how faults are received. A pool holds it as long as it
// lives: its blocks move in the way of one engine.
class EngineHold {
 public:
  // Throws Error when the engine cannot be started.
  EngineHold();
  ~EngineHold();
  EngineHold(const EngineHold&) = delete;
  EngineHold& operator=(const EngineHold&) = delete;

  // Null: blocks are moved in the way of signals.
  const std::shared_ptr<os::Userfaultfd>& userfaultfd() const noexcept { return userfaultfd_; }

 private:
  std::shared_ptr<os::Userfaultfd> userfaultfd_;
  int owner_pid_;
};

// The one in use; null when faults are received by signals.
std::shared_ptr<os::Userfaultfd> userfaultfd_in_use() noexcept;

}}  // namespace vortex::v0
