// What the handler of SIGSEGV and the dispatcher share.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "vortex/engine/fault_engine.h"
#include "vortex/engine/handler_places.h"
#include "vortex/fault/region_table.h"
#include "vortex/fault_dispatcher.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

// Everything the signal handler reads. Never destroyed: faults may come while the process exits.
struct DispatcherState {
  RegionTable regions;
  FutexMutex mutex;  // held by start(), stop() and reclaim()
  std::atomic<const FaultEngine*> engine{nullptr};
  Engine engine_kind = Engine::kNative;
  HandlerPlaces places;
  const EarlierHandler* warned_of = nullptr;
  std::size_t pools = 0;  // live pools, made for the engine that runs or will run
  // The thread sanitizer wraps handlers and runs them with every signal blocked, against their
  // flags: a fault inside a fault would end the process, and so would the next one after leaving
  // the handler.
  std::atomic<bool> restore_mask{false};
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> forwarded{0};
};

// Null until the dispatcher is used for the first time.
extern std::atomic<DispatcherState*> g_dispatcher_state;

inline DispatcherState& dispatcher_state() noexcept {
  return *g_dispatcher_state.load(std::memory_order_acquire);
}

// What each function does that the kernel may call. `place`: the one that it has called.
void handle_signal(std::size_t place, int signal, siginfo_t* info, void* context) noexcept;

}}  // namespace vortex::v0
