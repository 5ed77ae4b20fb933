#include "vortex/fault_dispatcher.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/fault/earlier_handler.h"
#include "vortex/fault/fault_engine.h"
#include "vortex/fault/handler_places.h"
#include "vortex/fault/handler_stack.h"
#include "vortex/fault/machine_context.h"
#include "vortex/fault/refusals.h"
#include "vortex/fault/region_table.h"
#include "vortex/fault/thread_state.h"
#include "vortex/guarded.h"
#include "vortex/os/thread_id.h"
#include "vortex/os/userfaultfd.h"

namespace vortex::inline v0 {

constinit thread_local ThreadState g_thread_state;

namespace {

// Everything the signal handler reads. Never destroyed: faults may come while the process exits.
struct Shared {
  RegionTable regions;
  FutexMutex mutex;  // start, stop, reclaim
  std::atomic<const FaultEngine*> engine{nullptr};
  Engine engine_kind = Engine::kNative;
  HandlerPlaces places;
  const EarlierHandler* warned_of = nullptr;
  std::size_t pools = 0;  // that live, made for the engine that runs or will run
  // The thread sanitizer wraps handlers and runs them with every signal blocked, against their
  // flags: a fault inside a fault would end the process, and so would the next one after leaving
  // the handler.
  std::atomic<bool> restore_mask{false};
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> forwarded{0};
};

alignas(Shared) std::byte shared_storage[sizeof(Shared)];
std::atomic<Shared*> shared_state{nullptr};

Shared& shared() noexcept { return *shared_state.load(std::memory_order_acquire); }

constexpr Failure failure_of_process(int error, std::string_view cause) {
  Failure failure;
  failure.error = error;
  failure.stream.text("?");
  failure.cause.text(cause);
  return failure;
}
constexpr Failure kForkedFailure =
    failure_of_process(EFAULT, "touched in a forked child, which does not inherit streams");
constexpr Failure kNoRoomFailure =
    failure_of_process(ENOMEM, "no memory for a stack to serve faults on");

using Signal = HandlerPlaces::Signal;

struct FaultFrame : ServiceFrame {
  Fault fault;
  Signal signal;
};

// A fault (or a signal) that is none of ours.
void forward(const Signal& signal) noexcept {
  Shared& state = shared();
  state.forwarded.fetch_add(1, std::memory_order_relaxed);
  state.places.forward(signal);
}

// Leaves every region that was entered in the scope of `guard`, and the handler with them, under
// the mask of the code that the outermost of their faults interrupted: a handler in front of ours
// may have blocked signals. `context` is the innermost fault's.
[[noreturn]] void leave_to(GuardFrame& guard, const void* context) noexcept {
  ThreadState& thread = thread_state();
  while (thread.serving != guard.serving) {
    ServiceFrame* const frame = thread.serving;
    if (frame->context != nullptr) context = frame->context;
    thread.serving = frame->outer;
    frame->region->server().abandon(guard.failure);
    frame->region->unpin();
  }
  jump_to(guard.target, guard.stack, static_cast<const ucontext_t*>(context)->uc_sigmask);
}

// A stream could not serve the fault. Returns to let the process end, or where an earlier handler
// has found another way to go on.
void fail(const Failure& failure, const FaultFrame& frame) noexcept {
  Shared& state = shared();
  state.failed.fetch_add(1, std::memory_order_relaxed);
  if (GuardFrame* const guard = thread_state().guard; guard != nullptr) {
    guard->failure = failure;
    leave_to(*guard, frame.context);
  }
  write_line(failure.line().view());
  const std::uintptr_t access = goes_on_at(frame.context);
  forward(frame.signal);
  // A handler that returned to the access expects it to work now. It never will.
  if (goes_on_at(frame.context) == access) {
    run_default_action(frame.signal.number, frame.signal.info);
  }
}

// Gives a fault to the engine, where a stream's callbacks have room.
void deliver_with_room(FaultFrame& frame) noexcept {
  const bool delivered = call_with_room(
      frame.context,
      [](void* argument) noexcept {
        const Signal& signal = static_cast<const FaultFrame*>(argument)->signal;
        const FaultEngine* const engine = shared().engine.load(std::memory_order_acquire);
        engine->deliver(signal.number, signal.info, signal.context);
      },
      &frame);
  if (delivered) return;
  thread_state().serving = frame.outer;
  frame.region->unpin();
  fail(kNoRoomFailure, frame);
}

void handle_signal(std::size_t place, int signal, siginfo_t* info, void* context) noexcept {
  const int saved_errno = errno;
  Shared& state = shared();
  const auto* const machine = static_cast<const ucontext_t*>(context);
  if (state.restore_mask.load(std::memory_order_relaxed)) {
    pthread_sigmask(SIG_SETMASK, &machine->uc_sigmask, nullptr);
  }
  Region* region = nullptr;
  if (!sent_by_somebody(info)) {
    region = state.regions.pin(static_cast<const std::byte*>(info->si_addr));
  }
  if (region == nullptr) {
    forward({place, signal, info, context});
  } else {
    ThreadState& thread = thread_state();
    FaultFrame frame{{region, thread.serving, context},
                     {static_cast<std::byte*>(info->si_addr), access_of(machine)},
                     {place, signal, info, context}};
    thread.serving = &frame;
    deliver_with_room(frame);
  }
  errno = saved_errno;
}

using Trampolines = HandlerFunctions<&handle_signal>;

bool is_ours(const struct sigaction& action) noexcept {
  return Trampolines::place_of(action) != HandlerPlaces::kPlaces;
}

void install_trampoline(std::size_t place) {
  install_handler(SIGSEGV, Trampolines::kAll[place]);
  // Sanitizers that replace sigaction() tell us what we want to hear; the kernel tells the truth.
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    std::uint64_t mask;
  } kernel{};
  const bool known = syscall(SYS_rt_sigaction, SIGSEGV, nullptr, &kernel, sizeof kernel.mask) == 0;
  shared().restore_mask.store(known && kernel.mask != 0, std::memory_order_relaxed);
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
  forget_thread_id();
  Shared& state = shared();
  state.pools = 0;
  const FaultEngine* const engine = state.engine.load(std::memory_order_relaxed);
  if (engine == nullptr || engine->by_signals()) {
    state.regions.become_inherited();
  } else {
    state.regions.forget_inherited();
    engine->leave_to_parent();
    state.engine.store(nullptr, std::memory_order_release);
  }
  after_fork_in_parent();
}

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

// Says once for each handler what it may break. A stream that is about to be used is where somebody
// still reads it.
void warn_of_handler_in_front() {
  Shared& state = shared();
  const struct sigaction now = installed_action(SIGSEGV);
  if (is_ours(now)) return;
  {
    std::lock_guard lock(state.mutex);
    if (state.warned_of != nullptr && state.warned_of->equals(now)) return;
    state.warned_of = &EarlierHandler::keep(now);
  }
  write_line("vortex: SIGSEGV is handled by " + name_of(now) +
             ", which was installed after vortex; streams work only if it passes their faults on "
             "(FaultDispatcher::reclaim(), in C vtx_reclaim_faults(), puts vortex in front again)");
}

}  // namespace

bool has_pinned_fault() noexcept {
  const ServiceFrame* const frame = thread_state().serving;
  return frame != nullptr && frame->context != nullptr;
}

void serve_pinned_fault() noexcept {
  ThreadState& thread = thread_state();
  auto& frame = static_cast<FaultFrame&>(*thread.serving);
  Shared& state = shared();
  Failure failure;
  bool is_served = false;
  if (frame.region->inherited()) {
    failure = kForkedFailure;
  } else {
    is_served = frame.region->server().serve(frame.fault, failure);
  }
  if (is_served) {
    state.served.fetch_add(1, std::memory_order_relaxed);
    thread.serving = frame.outer;
    frame.region->unpin();
    return;
  }
  thread.serving = frame.outer;
  frame.region->unpin();
  fail(failure, frame);
}

void settle_faults() noexcept {
  const FaultEngine* const engine = shared().engine.load(std::memory_order_acquire);
  if (engine != nullptr && !engine->by_signals()) engine->settle();
}

Region* pin_region(const std::byte* address) noexcept { return shared().regions.pin(address); }

bool serve_elsewhere(Region* region, const Fault& fault,
                     const os::Userfaultfd& userfaultfd) noexcept {
  if (region == nullptr) {
    userfaultfd.poison(fault.address);
    return true;
  }
  Shared& state = shared();
  ThreadState& thread = thread_state();
  ServiceFrame frame{region, thread.serving, nullptr};
  Failure failure;
  bool is_served = false;
  thread.doubted = fault.doubtful ? region : nullptr;
  // A callback may touch another stream, whose fault another thread of the engine serves. When that
  // fails, control comes back here.
  region->pin();
  const Failure nested = guarded([&] {
    thread.serving = &frame;
    is_served = region->server().serve(fault, failure);
    thread.serving = frame.outer;
    region->unpin();
  });
  const bool refused_in_doubt = fault.doubtful && thread.doubted == nullptr;
  thread.doubted = nullptr;
  // It has been abandoned, and says why.
  if (nested) is_served = region->server().serve(fault, failure);
  if (!is_served && refused_in_doubt && !nested) {
    region->unpin();
    return false;
  }
  if (is_served) {
    state.served.fetch_add(1, std::memory_order_relaxed);
  } else {
    state.failed.fetch_add(1, std::memory_order_relaxed);
    region->note_failure(failure);
    keep_refusal(fault.thread, *region, failure);
    // While the region is pinned, or the page might be somebody else's.
    if (userfaultfd.poison(fault.address) == EEXIST) {
      region->server().withhold(fault);
      userfaultfd.poison(fault.address);
    }
  }
  region->unpin();
  return true;
}

BusErrorAnswer fail_here(std::byte* address, const void* context) noexcept {
  // Another thread's refusal may have woken this one before its own.
  while (being_served(current_thread_id())) sched_yield();
  Failure failure;
  const bool refused_now = take_refusal(&failure);
  Region* const region = shared().regions.pin(address);
  if (region == nullptr && !refused_now) return BusErrorAnswer::kOthers;
  if (region != nullptr) {
    const bool readmitted = region->server().readmit(address);
    // The page has been refused before, maybe to another thread.
    if (!refused_now) failure = region->failure();
    region->unpin();
    if (!refused_now && readmitted) return BusErrorAnswer::kTryAgain;
    if (!failure) return BusErrorAnswer::kOthers;
  }
  if (GuardFrame* const guard = thread_state().guard; guard != nullptr) {
    guard->failure = failure;
    leave_to(*guard, context);
  }
  write_line(failure.line().view());
  return BusErrorAnswer::kRefused;
}

EngineHold::EngineHold() : owner_pid_(getpid()) {
  FaultDispatcher::instance();
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  const FaultEngine* const running = state.engine.load(std::memory_order_relaxed);
  if (running == nullptr && FaultDispatcher::default_engine() == Engine::kUserfaultfd) {
    FaultDispatcher::start_locked(Engine::kUserfaultfd);
  }
  userfaultfd_ = userfaultfd_in_use();
  ++state.pools;
}

EngineHold::~EngineHold() {
  if (getpid() != owner_pid_) return;
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  --state.pools;
}

FaultDispatcher::FaultDispatcher() {
  shared_state.store(new (shared_storage) Shared, std::memory_order_release);
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

bool FaultDispatcher::compiled_in(Engine engine) noexcept {
#ifdef VORTEX_WITH_LIBSIGSEGV
  if (engine == Engine::kLibsigsegv) return true;
#endif
  return engine != Engine::kLibsigsegv;
}

Engine FaultDispatcher::default_engine() {
  const Engine by_signal = compiled_in(Engine::kLibsigsegv) ? Engine::kLibsigsegv : Engine::kNative;
  const char* const value = secure_getenv("VORTEX_ENGINE");
  const std::string_view asked = value != nullptr ? value : "";
  if (asked.empty() || asked == "signal") return by_signal;
  if (asked == "libsigsegv") return Engine::kLibsigsegv;
  if (asked == "native") return Engine::kNative;
  if (asked == "userfaultfd") return Engine::kUserfaultfd;
  throw Error(EINVAL, "VORTEX_ENGINE is '" + std::string(asked) +
                          "'; it can be signal, libsigsegv, native or userfaultfd");
}

void FaultDispatcher::require(Engine engine) {
  if (!compiled_in(engine)) {
    throw Error(ENOTSUP, "this build has no libsigsegv engine (it was made with -Dengine=native)");
  }
  if (engine == Engine::kUserfaultfd) os::Userfaultfd::make();
}

FaultDispatcher& FaultDispatcher::instance() {
  static FaultDispatcher dispatcher;
  return dispatcher;
}

void FaultDispatcher::start(Engine engine) {
  std::lock_guard lock(shared().mutex);
  start_locked(engine);
}

void FaultDispatcher::start_locked(Engine engine) {
  Shared& state = shared();
  if (state.engine.load(std::memory_order_relaxed) != nullptr) {
    if (state.engine_kind == engine) return;
    throw Error(EBUSY, "faults are already received by another engine");
  }
  require(engine);
  if (engine == Engine::kUserfaultfd) {
    if (state.pools > 0) {
      throw Error(
          EBUSY,
          "pools have been made for faults by signals: choose the engine userfaultfd before "
          "the first pool is made");
    }
    userfaultfd_engine().prepare();
    state.engine_kind = engine;
    state.engine.store(&userfaultfd_engine(), std::memory_order_release);
    return;
  }
  const FaultEngine* chosen = &native_engine();
#ifdef VORTEX_WITH_LIBSIGSEGV
  if (engine == Engine::kLibsigsegv) chosen = &libsigsegv_engine();
#endif
  EarlierHandler& earlier = EarlierHandler::keep(installed_action(SIGSEGV));
  chosen->prepare();
  const std::size_t place = state.places.next(earlier, true);
  state.engine.store(chosen, std::memory_order_release);
  state.engine_kind = engine;
  install_trampoline(place);
}

void FaultDispatcher::stop() {
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  if (state.engine.load(std::memory_order_relaxed) == nullptr) return;
  if (state.regions.size() != 0) throw Error(EBUSY, "streams still need their faults served");
  const FaultEngine& engine = *state.engine.load(std::memory_order_relaxed);
  if (!engine.by_signals()) {
    if (state.pools != 0) throw Error(EBUSY, "pools still move their blocks by userfaultfd");
    state.engine.store(nullptr, std::memory_order_release);
    engine.stop();
    return;
  }
  const struct sigaction now = installed_action(SIGSEGV);
  const std::size_t place = Trampolines::place_of(now);
  if (place == HandlerPlaces::kPlaces) {
    throw Error(EBUSY,
                "SIGSEGV is handled by " + name_of(now) + ", which was installed after vortex");
  }
  const struct sigaction earlier = state.places.restored(place);
  sigaction(SIGSEGV, &earlier, nullptr);
  state.engine.store(nullptr, std::memory_order_release);
}

bool FaultDispatcher::running() const noexcept {
  return shared().engine.load(std::memory_order_acquire) != nullptr;
}

Engine FaultDispatcher::engine() const noexcept {
  std::lock_guard lock(shared().mutex);
  return shared().engine_kind;
}

void FaultDispatcher::add(Region& region) {
  {
    std::lock_guard lock(shared().mutex);
    // Under one lock with the region's entry, or a stop() could come between the two.
    if (!running()) start_locked(default_engine());
    const FaultEngine& engine = *shared().engine.load(std::memory_order_relaxed);
    shared().regions.add(region);
    if (!engine.by_signals()) {
      try {
        engine.admit(region.begin(), static_cast<std::size_t>(region.end() - region.begin()));
      } catch (...) {
        shared().regions.remove(region);
        throw;
      }
      return;
    }
  }
  try {
    warn_of_handler_in_front();
  } catch (const std::bad_alloc&) {
    // The region is served with and without the warning.
  }
}

void FaultDispatcher::remove(Region& region) noexcept {
  const FaultEngine* const engine = shared().engine.load(std::memory_order_acquire);
  shared().regions.remove(region);
  region.wait_until_unpinned();
  if (engine != nullptr && !engine->by_signals()) await_refusals_taken(region);
}

std::string FaultDispatcher::handler_in_front() const {
  const FaultEngine* const engine = shared().engine.load(std::memory_order_acquire);
  if (engine == nullptr || !engine->by_signals()) return {};
  const struct sigaction now = installed_action(SIGSEGV);
  return is_ours(now) ? std::string() : name_of(now);
}

void FaultDispatcher::reclaim() {
  Shared& state = shared();
  std::lock_guard lock(state.mutex);
  const FaultEngine* engine = state.engine.load(std::memory_order_relaxed);
  if (engine == nullptr || !engine->by_signals()) return;
  const struct sigaction in_front = installed_action(SIGSEGV);
  if (is_ours(in_front)) return;
  if (engine->owns(in_front)) {
    throw Error(EBUSY,
                "the program has begun to handle SIGSEGV with libsigsegv, which has room for one "
                "user: build vortex with -Dengine=native");
  }
  install_trampoline(state.places.next(EarlierHandler::keep(in_front), false));
}

FaultDispatcher::Statistics FaultDispatcher::statistics() const noexcept {
  const Shared& state = shared();
  return {state.served.load(std::memory_order_relaxed),
          state.failed.load(std::memory_order_relaxed),
          state.forwarded.load(std::memory_order_relaxed)};
}

}  // namespace vortex::inline v0
