// A word to whoever wants to know that a thread will sleep.
#pragma once

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 { namespace os {

using WaitingHook = void (*)() noexcept;

// The function that this thread calls before it sleeps on a futex of ours, or runs somebody's code
// that may; null at first. Returns what it was.
VORTEX_EXPORT WaitingHook set_waiting_hook(WaitingHook hook) noexcept;

// Calls it.
VORTEX_EXPORT void before_waiting() noexcept;

}}}  // namespace vortex::v0::os
