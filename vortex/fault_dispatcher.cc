#include "vortex/fault_dispatcher.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <new>

#include "vortex/diagnostics.h"
#include "vortex/error.h"
#include "vortex/fault_engine.h"
#include "vortex/guarded.h"
#include "vortex/machine_context.h"
#include "vortex/thread_state.h"

namespace vortex {

constinit thread_local ThreadState g_thread_state;

// One fault being served by a thread; they nest when a callback inside a fault touches another
// stream.
struct FaultFrame {
  Fault fault;
  Region* region;
  FaultFrame* outer;
  int signal;
  siginfo_t* info;
  void* context;
};

namespace {

// An action of the program's, as it was when ours replaced it.
struct EarlierAction {
  struct sigaction action {};
  std::atomic<bool> spent{false};  // SA_RESETHAND: it has had its one call

  bool is_default() const noexcept {
    return spent.load(std::memory_order_relaxed) ||
           ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL);
  }
  bool is_ignored() const noexcept {
    return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
  }
};

// Everything the signal handler reads. Never destroyed: faults may come while the process exits.
struct Shared {
  RegionTable regions;
  FutexMutex mutex;  // start, stop, reclaim
  std::atomic<const FaultEngine*> engine{nullptr};
  Engine engine_kind = Engine::kNative;
  std::atomic<EarlierAction*> earlier{nullptr};  // called for faults that are not ours
  std::atomic<EarlierAction*> first{nullptr};    // before the first reclaim()
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> forwarded{0};
};

alignas(Shared) std::byte shared_storage[sizeof(Shared)];
std::atomic<Shared*> shared_state{nullptr};

Shared& shared() noexcept { return *shared_state.load(std::memory_order_acquire); }

// Sent by kill() or the like, as opposed to raised by the processor.
bool sent_by_somebody(const siginfo_t* info) noexcept { return info->si_code <= 0; }

void run_default_action(int signal, siginfo_t* info) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  // A fault comes again when the instruction does. A signal that was sent has to be sent again; it
  // is delivered when this handler returns at the latest.
  if (sent_by_somebody(info)) {
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
  }
}

void call_earlier(EarlierAction& earlier, int signal, siginfo_t* info, void* context) noexcept {
  if (earlier.is_default() || (earlier.is_ignored() && !sent_by_somebody(info))) {
    run_default_action(signal, info);  // the kernel does not let a fault be ignored either
    return;
  }
  if (earlier.is_ignored()) return;
  const struct sigaction& action = earlier.action;
  if ((action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0 &&
      earlier.spent.exchange(true, std::memory_order_relaxed)) {
    run_default_action(signal, info);
    return;
  }
  sigset_t blocked = action.sa_mask;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A fault (or a signal) that is none of ours.
void forward(int signal, siginfo_t* info, void* context) noexcept {
  Shared& state = shared();
  ThreadState& thread = thread_state();
  state.forwarded.fetch_add(1, std::memory_order_relaxed);
  // After reclaim() the handler in the middle may call us again with what we passed to it: then
  // this frame lies below the recorded one. (A record above it is what a longjmp left behind.)
  void* const frame = __builtin_frame_address(0);
  void* const outer = thread.forwarding;
  const bool passed_back = outer != nullptr && frame < outer;
  EarlierAction* earlier =
      (passed_back ? state.first : state.earlier).load(std::memory_order_acquire);
  thread.forwarding = frame;
  call_earlier(*earlier, signal, info, context);
  thread.forwarding = passed_back ? outer : nullptr;
}

// The thread sanitizer wraps handlers and runs them with every signal blocked, against their flags:
// a fault inside a fault would end the process, and so would the next one after leaving the
// handler.
#if defined(__SANITIZE_THREAD__)
#define VORTEX_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VORTEX_THREAD_SANITIZER
#endif
#endif
#ifdef VORTEX_THREAD_SANITIZER
constexpr bool kHandlersRunBlocked = true;
#else
constexpr bool kHandlersRunBlocked = false;
#endif

// Blocks the signals that were blocked where the fault happened, and no others.
[[maybe_unused]] void restore_mask(const ucontext_t* context) noexcept {
  pthread_sigmask(SIG_SETMASK, &context->uc_sigmask, nullptr);
}

// A stream could not serve the fault. Returns only to let the process end.
void fail(const Failure& failure, int signal, siginfo_t* info, void* context) noexcept {
  Shared& state = shared();
  state.failed.fetch_add(1, std::memory_order_relaxed);
  ThreadState& thread = thread_state();
  if (GuardFrame* guard = thread.guard; guard != nullptr) {
    // The record may belong to a stream that is about to go; the guard keeps a copy.
    guard->failure = failure;
    while (thread.fault != guard->fault) {
      FaultFrame* frame = thread.fault;
      thread.fault = frame->outer;
      frame->region->server().abandon(guard->failure);
      frame->region->unpin();
    }
    siglongjmp(guard->target, 1);
  }
  write_line(failure.line().view());
  forward(signal, info, context);
  // A handler that returned expects the access to work now. It never will.
  run_default_action(signal, info);
}

void trampoline(int signal, siginfo_t* info, void* context) noexcept {
  const int saved_errno = errno;
  if constexpr (kHandlersRunBlocked) restore_mask(static_cast<const ucontext_t*>(context));
  Region* region = nullptr;
  Shared& state = shared();
  if (!sent_by_somebody(info)) {
    region = state.regions.pin(static_cast<const std::byte*>(info->si_addr));
  }
  if (region == nullptr) {
    forward(signal, info, context);
  } else {
    ThreadState& thread = thread_state();
    FaultFrame frame{{static_cast<std::byte*>(info->si_addr),
                      access_of(static_cast<const ucontext_t*>(context))},
                     region,
                     thread.fault,
                     signal,
                     info,
                     context};
    thread.fault = &frame;
    state.engine.load(std::memory_order_acquire)->deliver(signal, info, context);
  }
  errno = saved_errno;
}

void install_trampoline(struct sigaction* before) {
  struct sigaction action {};
  action.sa_sigaction = &trampoline;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, before) != 0)
    throw Error(errno, "cannot install a SIGSEGV handler");
}

bool is_trampoline(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &trampoline;
}

// A child gets a copy of the calling thread only: locks of other threads must be free when it is
// made, and their lookups are over. Streams are not inherited: their blocks stay with the parent.
void before_fork() noexcept {
  shared().mutex.lock();
  shared().regions.lock_changes();
}
void after_fork_in_parent() noexcept {
  shared().regions.unlock_changes();
  shared().mutex.unlock();
}
void after_fork_in_child() noexcept {
  thread_state().thread_id = 0;
  shared().regions.become_inherited();
  after_fork_in_parent();
}

constexpr Failure kForkedFailure = [] {
  Failure failure;
  failure.error = EFAULT;
  failure.stream.text("?");
  failure.cause.text("touched in a forked child, which does not inherit streams");
  return failure;
}();

std::string name_of(const struct sigaction& action) {
  void* code = (action.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<void*>(action.sa_sigaction)
                                                   : reinterpret_cast<void*>(action.sa_handler);
  if ((action.sa_flags & SA_SIGINFO) == 0) {
    if (action.sa_handler == SIG_DFL) return "the default action";
    if (action.sa_handler == SIG_IGN) return "SIG_IGN";
  }
  Dl_info info{};
  if (dladdr(code, &info) == 0) return "a handler of unknown origin";
  const std::string file = info.dli_fname != nullptr ? info.dli_fname : "the program";
  return std::string(info.dli_sname != nullptr ? info.dli_sname : "a function") + " (" + file + ")";
}

}  // namespace

bool has_pinned_fault() noexcept { return thread_state().fault != nullptr; }

void serve_pinned_fault() noexcept {
  ThreadState& thread = thread_state();
  FaultFrame& frame = *thread.fault;
  Shared& state = shared();
  const Failure* failure =
      frame.region->inherited() ? &kForkedFailure : frame.region->server().serve(frame.fault);
  if (failure == nullptr) {
    state.served.fetch_add(1, std::memory_order_relaxed);
    thread.fault = frame.outer;
    frame.region->unpin();
    return;
  }
  const Failure copy = *failure;
  thread.fault = frame.outer;
  frame.region->unpin();
  fail(copy, frame.signal, frame.info, frame.context);
}

FaultDispatcher::FaultDispatcher() {
  shared_state.store(new (shared_storage) Shared, std::memory_order_release);
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

bool FaultDispatcher::compiled_in(Engine engine) noexcept {
#ifdef VORTEX_WITH_LIBSIGSEGV
  if (engine == Engine::kLibsigsegv) return true;
#endif
  return engine == Engine::kNative;
}

Engine FaultDispatcher::default_engine() noexcept {
  return compiled_in(Engine::kLibsigsegv) ? Engine::kLibsigsegv : Engine::kNative;
}

FaultDispatcher& FaultDispatcher::instance() {
  static FaultDispatcher dispatcher;
  return dispatcher;
}

void FaultDispatcher::start(Engine engine) {
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  if (state.engine.load(std::memory_order_relaxed) != nullptr) {
    if (state.engine_kind == engine) return;
    throw Error(EBUSY, "faults are already received by another engine");
  }
  const FaultEngine* chosen = &native_engine();
  if (engine == Engine::kLibsigsegv) {
#ifdef VORTEX_WITH_LIBSIGSEGV
    chosen = &libsigsegv_engine();
#else
    throw Error(ENOTSUP, "this build has no libsigsegv engine (it was made with -Dengine=native)");
#endif
  }
  auto* earlier = new EarlierAction;
  sigaction(SIGSEGV, nullptr, &earlier->action);
  // Before the engine may install anything: from then on a fault must find whom to call.
  state.earlier.store(earlier, std::memory_order_release);
  state.first.store(earlier, std::memory_order_release);
  chosen->prepare();
  state.engine.store(chosen, std::memory_order_release);
  state.engine_kind = engine;
  install_trampoline(nullptr);
}

void FaultDispatcher::stop() {
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  const FaultEngine* engine = state.engine.load(std::memory_order_relaxed);
  if (engine == nullptr) return;
  if (state.regions.size() != 0) throw Error(EBUSY, "streams still need their faults served");
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if (!is_trampoline(now)) {
    throw Error(EBUSY,
                "SIGSEGV is handled by " + name_of(now) + ", which was installed after vortex");
  }
  // The EarlierAction stays allocated: another thread may be inside the trampoline right now.
  EarlierAction* earlier = state.earlier.load(std::memory_order_relaxed);
  struct sigaction restored = earlier->action;
  if (earlier->spent.load(std::memory_order_relaxed)) {
    restored = {};
    restored.sa_handler = SIG_DFL;
  }
  sigaction(SIGSEGV, &restored, nullptr);
  state.engine.store(nullptr, std::memory_order_release);
}

bool FaultDispatcher::running() const noexcept {
  return shared().engine.load(std::memory_order_acquire) != nullptr;
}

Engine FaultDispatcher::engine() const noexcept { return shared().engine_kind; }

void FaultDispatcher::add(Region& region) {
  if (!running()) start();
  shared().regions.add(region);
}

void FaultDispatcher::remove(Region& region) {
  shared().regions.remove(region);
  region.wait_until_unpinned();
}

std::string FaultDispatcher::handler_in_front() const {
  if (!running()) return {};
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  return is_trampoline(now) ? std::string() : name_of(now);
}

void FaultDispatcher::reclaim() {
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  if (state.engine.load(std::memory_order_relaxed) == nullptr) return;
  auto* in_front = new EarlierAction;
  sigaction(SIGSEGV, nullptr, &in_front->action);
  if (is_trampoline(in_front->action)) {
    delete in_front;
    return;
  }
  state.earlier.store(in_front, std::memory_order_release);
  install_trampoline(nullptr);
}

FaultDispatcher::Statistics FaultDispatcher::statistics() const noexcept {
  const Shared& state = shared();
  return {state.served.load(std::memory_order_relaxed),
          state.failed.load(std::memory_order_relaxed),
          state.forwarded.load(std::memory_order_relaxed)};
}

}  // namespace vortex
