#include "vortex/engine/fault_engine.h"

namespace vortex { inline namespace v0 {

const FaultEngine& native_engine() noexcept {
  static constexpr FaultEngine kEngine = {
      .prepare = [] {},
      .deliver = [](int, siginfo_t*, void*) noexcept { serve_pinned_fault(); },
      .owns = [](const struct sigaction&) noexcept { return false; },
  };
  return kEngine;
}

}}  // namespace vortex::v0
