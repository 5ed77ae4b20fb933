#include "vortex/guarded.h"

#include "vortex/fault/thread_state.h"

namespace vortex::inline v0 {

GuardFrame::GuardFrame() noexcept : outer(thread_state().guard), serving(thread_state().serving) {
  thread_state().guard = this;
}

GuardFrame::~GuardFrame() { thread_state().guard = outer; }

}  // namespace vortex::inline v0
