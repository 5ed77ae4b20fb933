#include "vortex/thread/waiting.h"

#include <utility>

namespace vortex { inline namespace v0 { namespace os {

namespace {

// In the initial TLS block: memory for it is never allocated on first touch.
#if defined(__GNUC__)
__attribute__((tls_model("initial-exec")))
#endif
constinit thread_local WaitingHook waiting_hook = nullptr;

}  // namespace

WaitingHook set_waiting_hook(WaitingHook hook) noexcept {
  return std::exchange(waiting_hook, hook);
}

void before_waiting() noexcept {
  if (waiting_hook != nullptr) waiting_hook();
}

}}}  // namespace vortex::v0::os
