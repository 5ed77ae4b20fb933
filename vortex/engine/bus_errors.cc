// The handler of bus errors: what a poisoned page answers to the program's own accesses.
#include <signal.h>

#include "vortex/engine/fault_engine.h"
#include "vortex/engine/handler_places.h"
#include "vortex/engine/handler_stack.h"
#include "vortex/thread/race_detector.h"
#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 {

namespace {

constinit HandlerPlaces places;

BusErrorAnswer answer_to(const siginfo_t* info, const void* context) noexcept {
  auto* const address = static_cast<std::byte*>(info->si_addr);
  if (!is_fault_thread()) return fail_here(address, context);
  // Inside a fault of ours. A race detector forgets for a handler what it was told to ignore; what
  // the handler tells it holds where a jump out of the handler leads.
  const OrderedByKernel ordered;
  return fail_here(address, context);
}

void on_bus_error(std::size_t place, int signal, siginfo_t* info, void* context) noexcept {
  const KeptErrno kept;
  BusErrorAnswer answer = BusErrorAnswer::kOthers;
  const auto look = [&]() noexcept { answer = answer_to(info, context); };
  if (!sent_by_somebody(info) && !call_with_room(context, look)) look();
  if (answer == BusErrorAnswer::kOthers) places.forward({place, signal, info, context});
  if (answer == BusErrorAnswer::kRefused) places.forward_refused({place, signal, info, context});
}

using Functions = HandlerFunctions<&on_bus_error>;

}  // namespace

// Somebody may stand in front of a function of ours from before.
void install_bus_handler() {
  const struct sigaction before = installed_action(SIGBUS);
  if (Functions::place_of(before) != HandlerPlaces::kPlaces) return;
  const std::size_t place = places.next(EarlierHandler::keep(before), true);
  install_handler(SIGBUS, Functions::kAll[place]);
}

void remove_bus_handler() noexcept {
  const std::size_t place = Functions::place_of(installed_action(SIGBUS));
  // Somebody in front of us may pass bus errors on.
  if (place == HandlerPlaces::kPlaces) return;
  const struct sigaction before = places.restored(place);
  sigaction(SIGBUS, &before, nullptr);
}

}}  // namespace vortex::v0
