#include "vortex/thread/this_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace vortex { inline namespace v0 {

namespace {

// In the initial TLS block: memory for them is never allocated on first touch.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::int32_t cached_id =
    0;  // 0: not asked yet
[[gnu::tls_model("initial-exec")]] constinit thread_local os::WaitingHook waiting_hook = nullptr;

}  // namespace

std::int32_t current_thread_id() noexcept {
  if (cached_id == 0) cached_id = static_cast<std::int32_t>(syscall(SYS_gettid));
  return cached_id;
}

void forget_thread_id() noexcept { cached_id = 0; }

namespace os {

WaitingHook set_waiting_hook(WaitingHook hook) noexcept {
  return std::exchange(waiting_hook, hook);
}

void before_waiting() noexcept {
  if (waiting_hook != nullptr) waiting_hook();
}

}  // namespace os

}}  // namespace vortex::v0
