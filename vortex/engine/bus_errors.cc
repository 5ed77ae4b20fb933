#include "vortex/engine/bus_errors.h"

#include <signal.h>

#include <cerrno>

#include "vortex/engine/earlier_handler.h"
#include "vortex/engine/fault_engine.h"
#include "vortex/engine/handler_places.h"
#include "vortex/engine/handler_stack.h"
#include "vortex/thread/race_detector.h"

namespace vortex { inline namespace v0 {

namespace {

constinit HandlerPlaces places;

struct BusError {
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

void on_bus_error(std::size_t place, int signal, siginfo_t* info, void* context) noexcept {
  const int saved = errno;
  BusError bus_error{info, context};
  const auto look = [](void* argument) noexcept {
    look_for_refusal(*static_cast<BusError*>(argument));
  };
  if (!sent_by_somebody(info) && !call_with_room(context, look, &bus_error)) look(&bus_error);
  switch (bus_error.answer) {
    case BusErrorAnswer::kOthers:
      places.forward({place, signal, info, context});
      break;
    case BusErrorAnswer::kRefused:
      places.forward_refused({place, signal, info, context});
      break;
    case BusErrorAnswer::kTryAgain:
      break;
  }
  errno = saved;
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
