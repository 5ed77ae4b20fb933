// The process's one SIGSEGV handler (the stream manager of section 4.4 of the Vortex paper).
#pragma once

#include <cstdint>
#include <string>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class Region;

// How faults reach us.
//
// By SIGSEGV, on the thread that touched the memory: libsigsegv is the default where it is compiled
// in, which -Dengine=native prevents; both behave alike.
//
// By userfaultfd (Linux 6.8, with permission): threads of ours serve the faults while the toucher
// sleeps, also those of the kernel on behalf of system calls. SIGSEGV is left alone. A fault that
// finds the thread asleep takes some ten times as long as by signal: use larger blocks. Callbacks
// run on threads of ours; blocks are always moved (see PoolKind).
enum class Engine { kLibsigsegv, kNative, kUserfaultfd };

// Faults are process-wide, so this is the one object of the library that is, too. A fault in a
// registered region goes to its stream; any other goes to the handler that was installed
// before ours, called directly with the original siginfo and context, under the mask and flags it
// was installed with. (Putting the earlier handler back and faulting again would lose the faults
// that other threads have meanwhile; only the default action and SIG_IGN are restored like that.)
//
// The handler is installed with SA_NODEFER, because a callback that runs inside a fault may read
// another stream, and with SA_ONSTACK: in a thread that has an alternate signal stack, callbacks of
// streams run on a stack of the library's, as large as a thread's. It blocks no other signals
// (docs/decisions/0004-no-signal-blocked.md). Handlers of other signals may so interrupt a fault;
// they must not touch streams, since the code they interrupt may hold a stream's or a pool's lock.
//
// Thread-safe. Nothing here may be called inside a fault.
class VORTEX_EXPORT FaultDispatcher {
 public:
  static FaultDispatcher& instance();

  // compiled_in() tells whether this build has the engine; default_engine() is the engine that it
  // uses unless told otherwise: the environment's VORTEX_ENGINE (signal, libsigsegv, native,
  // userfaultfd) or signals. Throws Error(EINVAL) when that is none of these.
  static bool compiled_in(Engine engine) noexcept;
  static Engine default_engine();

  // Throws Error, which says what is in the way and what to set, when the engine cannot work in
  // this process: ENOTSUP when it is not compiled in, ENOSYS when the kernel lacks something, EPERM
  // when it does not allow it.
  static void require(Engine engine);

  // Receives faults from now on; the first stream or pool does it with the default engine when
  // nobody did. Throws Error: EBUSY when another engine is running or, for userfaultfd, pools have
  // been made for signals; what require() throws.
  void start(Engine engine);
  void start() { start(default_engine()); }
  // Takes the handler out again and puts the earlier one back. Throws Error(EBUSY) while regions
  // are registered, for userfaultfd while pools live, or when somebody installed a handler after
  // ours, which would be lost.
  void stop();
  bool running() const noexcept;
  Engine engine() const noexcept;

  // Registers a region. Throws Error: EEXIST when it overlaps another, ENOMEM or EPERM when the
  // kernel refuses to deliver its faults. When somebody has installed
  // a handler after ours, a line on stderr names it, once for each such handler.
  void add(Region& region);
  // Removes the region and waits until no thread serves a fault in it. The caller must have woken
  // those threads before.
  void remove(Region& region) noexcept;

  // The handler that somebody installed after ours: "function (library)" as far as the dynamic
  // linker knows, empty when ours is in place. Faults reach us then only if that handler passes
  // them on.
  std::string handler_in_front() const;

  // Puts our handler in front again; the one found there is called for faults that are not ours.
  // When it passes them on to the handler that it replaced, or puts that back, they go to those who
  // were there before. Works for seven such handlers at a time; the faults that an eighth passes on
  // go straight to the one from before start(). Throws Error(EBUSY) when the handler found is
  // libsigsegv's and so is our engine.
  void reclaim();

  struct Statistics {
    std::uint64_t served = 0;     // faults in our regions, served
    std::uint64_t failed = 0;     // faults in our regions that ended in an error
    std::uint64_t forwarded = 0;  // faults that went to an earlier handler
  };
  Statistics statistics() const noexcept;

 private:
  friend class EngineHold;
  FaultDispatcher();
  static void start_locked(Engine engine);
};

}}  // namespace vortex::v0
