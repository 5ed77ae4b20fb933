// Which thread this is, as the kernel numbers them.
#pragma once

#include <cstdint>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

// The thread's kernel id, cached in storage that exists from the thread's first instruction on, so
// that a fault handler may ask.
VORTEX_EXPORT std::int32_t current_thread_id() noexcept;

// In a forked child, whose one thread has another id.
void forget_thread_id() noexcept;

}}  // namespace vortex::v0
