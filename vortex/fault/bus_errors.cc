#include "vortex/fault/bus_errors.h"

#include <signal.h>

#include <atomic>
#include <cerrno>

#include "vortex/error.h"
#include "vortex/fault/earlier_handler.h"
#include "vortex/fault/fault_engine.h"
#include "vortex/fault/handler_stack.h"
#include "vortex/fault/machine_context.h"
#include "vortex/fault/ordered_by_kernel.h"

namespace vortex::inline v0 {
namespace {

std::atomic<EarlierHandler*> earlier{nullptr};

struct BusError {
  int signal;
  siginfo_t* info;
  void* context;
  BusErrorAnswer answer = BusErrorAnswer::kOthers;
};

void look_for_refusal(BusError& bus_error) noexcept {
  auto* const address = static_cast<std::byte*>(bus_error.info->si_addr);
  if (!is_fault_thread()) {
    bus_error.answer = fail_here(address, bus_error.context);
    return;
  }
  // Inside a fault of ours. A race detector forgets for a handler what it was told to ignore; what
  // the handler tells it holds where a jump out of the handler leads.
  const OrderedByKernel ordered;
  bus_error.answer = fail_here(address, bus_error.context);
}

void forward(BusError& bus_error) noexcept {
  EarlierHandler* const handler = earlier.load(std::memory_order_acquire);
  const auto deliver = [](void* argument) noexcept {
    const BusError& of = *static_cast<const BusError*>(argument);
    earlier.load(std::memory_order_acquire)->deliver(of.signal, of.info, of.context);
  };
  const bool called =
      handler->wants_room() && call_with_room(bus_error.context, deliver, &bus_error);
  if (!called) deliver(&bus_error);
}

void on_bus_error(int signal, siginfo_t* info, void* context) noexcept {
  const int saved = errno;
  BusError bus_error{signal, info, context};
  const auto look = [](void* argument) noexcept {
    look_for_refusal(*static_cast<BusError*>(argument));
  };
  if (!sent_by_somebody(info) && !call_with_room(context, look, &bus_error)) look(&bus_error);
  if (bus_error.answer != BusErrorAnswer::kTryAgain) {
    const std::uintptr_t access = goes_on_at(context);
    forward(bus_error);
    // A handler that returned to the access expects it to work now. It never will.
    if (bus_error.answer == BusErrorAnswer::kRefused && goes_on_at(context) == access) {
      run_default_action(signal, info);
    }
  }
  errno = saved;
}

}  // namespace

void install_bus_handler() {
  struct sigaction before {};
  sigaction(SIGBUS, nullptr, &before);
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == &on_bus_error) return;
  earlier.store(&EarlierHandler::keep(before), std::memory_order_release);
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | (kStacksCanBeChanged ? SA_ONSTACK : 0);
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, &action, nullptr) != 0) {
    throw Error(errno, "cannot install a SIGBUS handler");
  }
}

void remove_bus_handler() noexcept {
  struct sigaction now {};
  sigaction(SIGBUS, nullptr, &now);
  // Somebody in front of us may pass bus errors on.
  if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != &on_bus_error) return;
  const struct sigaction before = earlier.load(std::memory_order_relaxed)->restored();
  sigaction(SIGBUS, &before, nullptr);
}

}  // namespace vortex::inline v0
