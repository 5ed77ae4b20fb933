#include "vortex/guarded.h"

#include "capi/stream/handle.h"
#include "vortex/c.h"

// The jump ends in this frame, which has nothing to destroy. It goes over the body alone: other
// code of the library that runs on the way is inside an UnguardedScope, or calls back into a
// guarded scope of its own.
int vtx_guarded(void (*body)(void* context), void* context) {
  const vortex::Failure failure = vortex::guarded([=] { body(context); });
  if (!failure) return 0;
  return vortex::capi::answer(vortex::capi::thread_error(), [&] { failure.throw_if_failed(); });
}
