#include "vortex/thread/thread_id.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace vortex { inline namespace v0 {

namespace {

// In the initial TLS block: memory for it is never allocated on first touch.
#if defined(__GNUC__)
__attribute__((tls_model("initial-exec")))
#endif
constinit thread_local std::int32_t cached_id = 0;  // 0: not asked yet

}  // namespace

std::int32_t current_thread_id() noexcept {
  if (cached_id == 0) cached_id = static_cast<std::int32_t>(syscall(SYS_gettid));
  return cached_id;
}

void forget_thread_id() noexcept { cached_id = 0; }

}}  // namespace vortex::v0
