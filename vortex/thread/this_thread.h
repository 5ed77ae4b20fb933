// What a thread keeps of itself where a fault handler may ask: its number, and whom to tell that it
// will sleep.
#pragma once

#include <cstdint>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// The thread's kernel id, cached in storage that exists from the thread's first instruction on, so
// that a fault handler may ask.
VORTEX_EXPORT std::int32_t current_thread_id() noexcept;

// In a forked child, whose one thread has another id.
void forget_thread_id() noexcept;

namespace os {

using WaitingHook = void (*)() noexcept;

// The function that this thread calls before it sleeps on a futex of ours, or runs somebody's code
// that may; null at first. Returns what it was.
VORTEX_EXPORT WaitingHook set_waiting_hook(WaitingHook hook) noexcept;

// Calls it.
VORTEX_EXPORT void before_waiting() noexcept;

}  // namespace os

}}  // namespace vortex::v0
