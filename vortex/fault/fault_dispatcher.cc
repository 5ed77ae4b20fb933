#include "vortex/fault_dispatcher.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string_view>

#include "vortex/engine/fault_engine.h"
#include "vortex/engine/handler_places.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/fault/dispatcher_state.h"
#include "vortex/fault/refusals.h"
#include "vortex/fault/region_table.h"
#include "vortex/os/userfaultfd.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

alignas(DispatcherState) std::byte state_storage[sizeof(DispatcherState)];

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
  dispatcher_state().restore_mask.store(known && kernel.mask != 0, std::memory_order_relaxed);
}

}  // namespace

bool lies_in_stream(const std::byte* address) noexcept {
  DispatcherState* const state = g_dispatcher_state.load(std::memory_order_acquire);
  Region* const region = state != nullptr ? state->regions.pin(address) : nullptr;
  if (region == nullptr) return false;
  region->unpin();
  return true;
}

namespace {

// A child gets a copy of the calling thread only: locks of other threads must be free when it is
// made, and their lookups are over. Streams are not inherited: their blocks stay with the parent.
void before_fork() noexcept {
  dispatcher_state().mutex.lock();
  dispatcher_state().regions.lock_changes();
}
void after_fork_in_parent() noexcept {
  dispatcher_state().regions.unlock_changes();
  dispatcher_state().mutex.unlock();
}
void after_fork_in_child() noexcept {
  forget_thread_id();
  DispatcherState& state = dispatcher_state();
  state.pools = 0;
  const FaultEngine* const engine = state.engine.load(std::memory_order_relaxed);
  if (engine == nullptr || engine->by_signals()) {
    state.regions.keep_from_child();
    state.regions.become_inherited();
  } else {
    state.regions.forget_inherited();
    engine->leave_to_parent();
    state.engine.store(nullptr, std::memory_order_release);
  }
  after_fork_in_parent();
}

const FaultEngine& engine_of(Engine engine) noexcept {
#ifdef VORTEX_WITH_LIBSIGSEGV
  if (engine == Engine::kLibsigsegv) return kLibsigsegvEngine;
#endif
  return engine == Engine::kUserfaultfd ? kUserfaultfdEngine : kNativeEngine;
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
  DispatcherState& state = dispatcher_state();
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

EngineHold::EngineHold() : owner_pid_(getpid()) {
  FaultDispatcher::instance();
  DispatcherState& state = dispatcher_state();
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
  DispatcherState& state = dispatcher_state();
  std::lock_guard lock(state.mutex);
  --state.pools;
}

FaultDispatcher::FaultDispatcher() {
  g_dispatcher_state.store(new (state_storage) DispatcherState, std::memory_order_release);
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

bool FaultDispatcher::compiled_in(Engine engine) noexcept {
  return engine != Engine::kLibsigsegv || &engine_of(engine) != &kNativeEngine;
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
  std::lock_guard lock(dispatcher_state().mutex);
  start_locked(engine);
}

void FaultDispatcher::start_locked(Engine engine) {
  DispatcherState& state = dispatcher_state();
  if (state.engine.load(std::memory_order_relaxed) != nullptr) {
    if (state.engine_kind == engine) return;
    throw Error(EBUSY, "faults are already received by another engine");
  }
  require(engine);
  const FaultEngine& chosen = engine_of(engine);
  if (!chosen.by_signals() && state.pools > 0) {
    throw Error(EBUSY,
                "pools have been made for faults by signals: choose the engine userfaultfd before "
                "the first pool is made");
  }
  const struct sigaction earlier = installed_action(SIGSEGV);
  EarlierHandler* const behind = chosen.by_signals() ? &EarlierHandler::keep(earlier) : nullptr;
  chosen.prepare();
  state.engine_kind = engine;
  const std::size_t place = behind != nullptr ? state.places.next(*behind, true) : 0;
  state.engine.store(&chosen, std::memory_order_release);
  if (behind == nullptr) return;
  try {
    install_trampoline(place);
  } catch (...) {
    sigaction(SIGSEGV, &earlier, nullptr);
    state.engine.store(nullptr, std::memory_order_release);
    throw;
  }
}

void FaultDispatcher::stop() {
  DispatcherState& state = dispatcher_state();
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
  return dispatcher_state().engine.load(std::memory_order_acquire) != nullptr;
}

Engine FaultDispatcher::engine() const noexcept {
  std::lock_guard lock(dispatcher_state().mutex);
  return dispatcher_state().engine_kind;
}

void FaultDispatcher::add(Region& region) {
  {
    std::lock_guard lock(dispatcher_state().mutex);
    // Under one lock with the region's entry, or a stop() could come between the two.
    if (!running()) start_locked(default_engine());
    const FaultEngine& engine = *dispatcher_state().engine.load(std::memory_order_relaxed);
    dispatcher_state().regions.add(region);
    if (!engine.by_signals()) {
      try {
        engine.admit(region.begin(), static_cast<std::size_t>(region.end() - region.begin()));
      } catch (...) {
        dispatcher_state().regions.remove(region);
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
  const FaultEngine* const engine = dispatcher_state().engine.load(std::memory_order_acquire);
  dispatcher_state().regions.remove(region);
  region.wait_until_unpinned();
  if (engine != nullptr && !engine->by_signals()) await_refusals_taken(region);
}

std::string FaultDispatcher::handler_in_front() const {
  const FaultEngine* const engine = dispatcher_state().engine.load(std::memory_order_acquire);
  if (engine == nullptr || !engine->by_signals()) return {};
  const struct sigaction now = installed_action(SIGSEGV);
  return is_ours(now) ? std::string() : name_of(now);
}

void FaultDispatcher::reclaim() {
  DispatcherState& state = dispatcher_state();
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
  const DispatcherState& state = dispatcher_state();
  return {state.served.load(std::memory_order_relaxed),
          state.failed.load(std::memory_order_relaxed),
          state.forwarded.load(std::memory_order_relaxed)};
}

}}  // namespace vortex::v0
