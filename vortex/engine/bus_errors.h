// The handler of bus errors: what a poisoned page answers to the program's own accesses.
#pragma once

namespace vortex { inline namespace v0 {

// Puts it in front of the program's. Throws Error.
void install_bus_handler();

// Puts the program's back, unless somebody has come in front of ours and may pass bus errors on.
void remove_bus_handler() noexcept;

}}  // namespace vortex::v0
