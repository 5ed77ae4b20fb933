// What goes wrong inside a fault, recorded without allocating.
#pragma once

#include <cstdint>
#include <string>

#include "vortex/line_buffer.h"

namespace vortex::inline v0 {

// The result of one step inside a fault: an errno value (0: it went well) and a sentence that
// outlives the fault (a literal, or text owned by the object that reports it).
struct Status {
  int error = 0;
  const char* cause = "";

  bool ok() const noexcept { return error == 0; }
};

// What happened, in words; longer texts are cut.
using CauseText = LineBuffer<512>;

// The first error of a stream. Trivially copyable; copying and reading it is async-signal-safe,
// except for message().
struct Failure {
  int error = 0;                   // errno value; 0: no failure
  LineBuffer<64> stream;           // name of the stream, cut to fit
  CauseText cause;                 // what happened
  std::uint64_t offset = 0;        // byte offset in the stream
  std::uint64_t block = 0;         // the block that holds it
  std::uint64_t window_begin = 0;  // blocks that could be touched: [window_begin, window_end)
  std::uint64_t window_end = 0;

  explicit operator bool() const noexcept { return error != 0; }

  // The diagnostic line, without a newline: "vortex: " and message(). Async-signal-safe.
  LineBuffer<768> line() const noexcept;

  // Stream, cause, place, and the system's word for the errno value.
  std::string message() const;

  // Throws the failure as a vortex::Error if there is one; its what() is message().
  void throw_if_failed() const;

 private:
  LineBuffer<768> text() const noexcept;  // message() without the system's word
};

}  // namespace vortex::inline v0
