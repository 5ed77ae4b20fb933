// Serves the faults that the handler of SIGSEGV or an engine has received.
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "vortex/engine/fault_engine.h"
#include "vortex/engine/handler_stack.h"
#include "vortex/engine/machine_context.h"
#include "vortex/engine/thread_state.h"
#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/fault/dispatcher_state.h"
#include "vortex/fault/refusals.h"
#include "vortex/os/userfaultfd.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

constinit thread_local ThreadState g_thread_state;

constinit std::atomic<DispatcherState*> g_dispatcher_state{nullptr};

UnguardedScope::UnguardedScope() noexcept : hidden_(std::exchange(thread_state().guard, nullptr)) {}
UnguardedScope::~UnguardedScope() { thread_state().guard = hidden_; }

namespace {

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

// The region that the thread was inside of last.
void leave(const ServiceFrame& frame) noexcept {
  thread_state().serving = frame.outer;
  frame.region->unpin();
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
  DispatcherState& state = dispatcher_state();
  state.failed.fetch_add(1, std::memory_order_relaxed);
  if (GuardFrame* const guard = thread_state().guard; guard != nullptr) {
    guard->failure = failure;
    leave_to(*guard, frame.context);
  }
  write_line(failure.line().view());
  state.forwarded.fetch_add(1, std::memory_order_relaxed);
  state.places.forward_refused(frame.signal);
}

// Where the thread is inside of nothing that could take the failure, and nothing that would take
// what is no data for data.
bool fill(Region& region, const Fault& fault, Stream::FailureCall& call) noexcept {
  const ThreadState& thread = thread_state();
  if (thread.guard != nullptr || region.inherited()) return false;
  return region.server().fill(fault, call);
}

// Not while the region is pinned: whoever waits for that may have what the function waits for.
void tell(const Stream::FailureCall& call, const Failure& failure) noexcept {
  if (call.function == nullptr) return;
  dispatcher_state().failed.fetch_add(1, std::memory_order_relaxed);
  call.function(call.context, failure);
}

// Gives a fault to the engine, where a stream's callbacks have room.
void deliver_with_room(FaultFrame& frame) noexcept {
  const auto deliver = [&signal = frame.signal]() noexcept {
    const FaultEngine* const engine = dispatcher_state().engine.load(std::memory_order_acquire);
    engine->deliver(signal.number, signal.info, signal.context);
  };
  if (call_with_room(frame.context, deliver)) return;
  leave(frame);
  fail(kNoRoomFailure, frame);
}

}  // namespace

void handle_signal(std::size_t place, int signal, siginfo_t* info, void* context) noexcept {
  const KeptErrno kept;
  DispatcherState& state = dispatcher_state();
  const auto* const machine = static_cast<const ucontext_t*>(context);
  if (state.restore_mask.load(std::memory_order_relaxed)) {
    pthread_sigmask(SIG_SETMASK, &machine->uc_sigmask, nullptr);
  }
  Region* region = nullptr;
  if (!sent_by_somebody(info)) {
    region = state.regions.pin(static_cast<const std::byte*>(info->si_addr));
  }
  if (region == nullptr) {
    state.forwarded.fetch_add(1, std::memory_order_relaxed);
    state.places.forward({place, signal, info, context});
  } else {
    ThreadState& thread = thread_state();
    FaultFrame frame{{region, thread.serving, context},
                     {static_cast<std::byte*>(info->si_addr), access_of(machine)},
                     {place, signal, info, context}};
    thread.serving = &frame;
    deliver_with_room(frame);
  }
}

bool has_pinned_fault() noexcept {
  const ServiceFrame* const frame = thread_state().serving;
  return frame != nullptr && frame->context != nullptr;
}

void serve_pinned_fault() noexcept {
  auto& frame = static_cast<FaultFrame&>(*thread_state().serving);
  Failure failure;
  bool is_served = false;
  if (frame.region->inherited()) {
    failure = kForkedFailure;
  } else {
    is_served = frame.region->server().serve(frame.fault, failure);
  }
  Stream::FailureCall call;
  const bool is_filled =
      !is_served && frame.outer == nullptr && fill(*frame.region, frame.fault, call);
  leave(frame);
  if (is_served) {
    dispatcher_state().served.fetch_add(1, std::memory_order_relaxed);
  } else if (is_filled) {
    tell(call, failure);
  } else {
    fail(failure, frame);
  }
}

void settle_faults() noexcept {
  const FaultEngine* const engine = dispatcher_state().engine.load(std::memory_order_acquire);
  if (engine != nullptr && !engine->by_signals()) engine->settle();
}

Region* pin_region(const std::byte* address) noexcept {
  return dispatcher_state().regions.pin(address);
}

bool serve_elsewhere(Region* region, const Fault& fault,
                     const os::Userfaultfd& userfaultfd) noexcept {
  if (region == nullptr) {
    userfaultfd.poison(fault.address);
    return true;
  }
  DispatcherState& state = dispatcher_state();
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
      // Refused again: another thread's refusal has poisoned it, or filled it with what is no data.
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
  Region* const region = dispatcher_state().regions.pin(address);
  if (region == nullptr && !refused_now) return BusErrorAnswer::kOthers;
  if (region != nullptr) {
    const bool readmitted = region->server().readmit(address);
    // The page has been refused before, maybe to another thread.
    if (!refused_now) failure = region->failure();
    Stream::FailureCall call;
    const bool is_filled =
        (refused_now || !readmitted) && failure && thread_state().serving == nullptr &&
        fill(*region, {address, access_of(static_cast<const ucontext_t*>(context))}, call);
    region->unpin();
    if (is_filled) tell(call, failure);
    if (is_filled || (!refused_now && readmitted)) return BusErrorAnswer::kTryAgain;
    if (!failure) return BusErrorAnswer::kOthers;
  }
  if (GuardFrame* const guard = thread_state().guard; guard != nullptr) {
    guard->failure = failure;
    leave_to(*guard, context);
  }
  write_line(failure.line().view());
  return BusErrorAnswer::kRefused;
}

}}  // namespace vortex::v0
