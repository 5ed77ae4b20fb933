#include "vortex/engine/handler_places.h"

#include <cerrno>
#include <cstdint>
#include <string>

#include "vortex/engine/handler_stack.h"
#include "vortex/engine/machine_context.h"
#include "vortex/engine/thread_state.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

std::size_t HandlerPlaces::next(EarlierHandler& handler, bool anew) noexcept {
  const std::size_t first = first_.load(std::memory_order_relaxed);
  do {
    last_ = (last_ + 1) % kPlaces;
  } while (last_ == first);
  behind_[last_].store(&handler, std::memory_order_release);
  if (anew) first_.store(last_, std::memory_order_relaxed);
  return last_;
}

void HandlerPlaces::forward_here(const Signal& signal) noexcept {
  std::size_t place = signal.place;
  // Handlers that pass a signal on may do so in a circle, for instance one that was there before us
  // and installs itself once more. A signal that arrives a second time while it is being forwarded
  // (the same signal frame, further down the stack; a record of a handler that left by longjmp lies
  // at the same height or further down itself) goes to the handler from before the first place, and
  // the third time to nobody.
  Forwarding& forwarding = thread_state().forwarding;
  const Forwarding before = forwarding;
  const auto* const frame = static_cast<const std::byte*>(__builtin_frame_address(0));
  const HandlerStack* const stack = current_handler_stack();
  const bool again =
      signal.context == before.context && stack == before.stack && frame < before.frame;
  forwarding = again ? before : Forwarding{signal.context, frame, stack, 0};
  if ((forwarding.places & (1U << place)) != 0) place = first_.load(std::memory_order_relaxed);
  if ((forwarding.places & (1U << place)) != 0) {
    run_default_action(signal.number, signal.info);
  } else {
    forwarding.places |= 1U << place;
    behind_[place]
        .load(std::memory_order_acquire)
        ->deliver(signal.number, signal.info, signal.context);
  }
  forwarding = before;
}

void HandlerPlaces::forward(const Signal& signal) noexcept {
  struct Call {
    HandlerPlaces* places;
    const Signal* signal;
  } call{this, &signal};
  const bool called = behind_[signal.place].load(std::memory_order_acquire)->wants_room() &&
                      call_with_room(
                          signal.context,
                          [](void* argument) noexcept {
                            const Call& made = *static_cast<const Call*>(argument);
                            made.places->forward_here(*made.signal);
                          },
                          &call);
  if (!called) forward_here(signal);
}

void HandlerPlaces::forward_refused(const Signal& signal) noexcept {
  const std::uintptr_t access = goes_on_at(signal.context);
  forward(signal);
  if (goes_on_at(signal.context) == access) run_default_action(signal.number, signal.info);
}

struct sigaction installed_action(int signal) noexcept {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action;
}

void install_handler(int signal, HandlerPlaces::Function function) {
  struct sigaction action {};
  action.sa_sigaction = function;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | (kStacksCanBeChanged ? SA_ONSTACK : 0);
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0) {
    throw Error(errno, std::string("cannot install a ") +
                           (signal == SIGBUS ? "SIGBUS" : "SIGSEGV") + " handler");
  }
}

}}  // namespace vortex::v0
