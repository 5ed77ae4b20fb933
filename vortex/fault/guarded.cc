#include "vortex/guarded.h"

#include "vortex/engine/handler_stack.h"
#include "vortex/engine/thread_state.h"
#include "vortex/fault/refusals.h"

namespace vortex { inline namespace v0 {

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

// A failure that is there already came by a jump.
Failure GuardFrame::result() const noexcept {
  if (!failure) return failure_of_call();
  end_jump();
  return failure;
}

}}  // namespace vortex::v0
