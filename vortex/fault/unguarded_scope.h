// Keeps guarded() calls from taking errors out of code that control must not leave.
#pragma once

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 {

struct GuardFrame;

// While it lives, the guarded() calls that this thread is inside of do not count: a touch that
// cannot be served ends the process, instead of jumping over frames whose destructors must run.
// Guarded scopes that begin meanwhile count. Does not allocate.
class VORTEX_EXPORT UnguardedScope {
 public:
  UnguardedScope() noexcept;
  ~UnguardedScope();
  UnguardedScope(const UnguardedScope&) = delete;
  UnguardedScope& operator=(const UnguardedScope&) = delete;

 private:
  GuardFrame* const hidden_;
};

}}  // namespace vortex::v0
