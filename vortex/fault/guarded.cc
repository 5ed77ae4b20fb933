#include "vortex/guarded.h"

#include "vortex/fault/handler_stack.h"
#include "vortex/fault/refusals.h"
#include "vortex/fault/thread_state.h"

namespace vortex::inline v0 {

GuardFrame::GuardFrame() noexcept
    : outer(thread_state().guard),
      serving(thread_state().serving),
      stack(current_handler_stack()),
      counted(outer == nullptr) {
  thread_state().guard = this;
  if (counted) enter_guarded();
}

GuardFrame::~GuardFrame() {
  if (counted) leave_guarded();
  thread_state().guard = outer;
}

Failure GuardFrame::result() const noexcept { return failure ? failure : failure_of_call(); }

}  // namespace vortex::inline v0
