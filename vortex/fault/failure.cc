#include <cstring>

#include "vortex/engine/handler_stack.h"
#include "vortex/engine/thread_state.h"
#include "vortex/error.h"
#include "vortex/fault/refusals.h"

namespace vortex { inline namespace v0 {

LineBuffer<768> Failure::text() const noexcept {
  LineBuffer<768> text;
  text.text("stream '").text(stream.view()).text("': ").text(cause.view());
  text.text(" (offset ").number(offset).text(", block ").number(block);
  text.text(", window of blocks [").number(window_begin).text(", ").number(window_end).text("))");
  return text;
}

LineBuffer<768> Failure::line() const noexcept {
  LineBuffer<768> line;
  line.text("vortex: ").text(text().view());
  // strerrordesc_np returns a constant and, unlike strerror, neither allocates nor translates.
  const char* description = strerrordesc_np(error);
  line.text(": ").text(description != nullptr ? description : "unknown error");
  return line;
}

std::string Failure::message() const { return Error(error, std::string(text().view())).what(); }

void Failure::throw_if_failed() const {
  if (error != 0) throw StreamError(*this, std::string(text().view()));
}

StreamError::StreamError(const Failure& failure, const std::string& text)
    : Error(failure.error, text), failure_(failure) {}

StreamError::~StreamError() = default;

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
