#include "vortex/failure.h"

#include <cstring>

#include "vortex/error.h"

namespace vortex {

LineBuffer<512> Failure::line() const noexcept {
  LineBuffer<512> text;
  text.text("vortex: stream '").text(stream.view()).text("': ").text(cause.view());
  text.text(" (offset ").number(offset).text(", block ").number(block);
  text.text(", window of blocks [").number(window_begin).text(", ").number(window_end).text(")");
  // strerrordesc_np returns a constant and, unlike strerror, neither allocates nor translates.
  const char* description = strerrordesc_np(error);
  text.text(": ").text(description != nullptr ? description : "unknown error").text(")");
  return text;
}

void Failure::throw_if_failed() const {
  if (error != 0) throw Error(error, message());
}

}  // namespace vortex
