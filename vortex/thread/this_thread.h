// What a thread keeps of itself where a fault handler may ask: its number, whom to tell that it
// will sleep, and errno.
#pragma once

#include <cerrno>
#include <cstdint>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Errno is again what it was when this was made: for calls that a fault handler may make, and whose
// errors are no news to the code around them.
class KeptErrno {
 public:
  KeptErrno() noexcept : saved_(errno) {}
  ~KeptErrno() { errno = saved_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  const int saved_;
};

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
