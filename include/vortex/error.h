// Errors: the exception of calls made outside a fault, the record of what goes wrong inside one,
// and guarded(), a call that returns the error of a stream that is touched inside it.
#pragma once

#include <setjmp.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "vortex/detail/stream/printable.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// std::string printable(std::string_view text): the text with control characters, and bytes that
// are no UTF-8, written as in C (\n, \x1b), for terminals and logs. Doing it again changes nothing.
using detail::printable;

// The exception by which every constructor, and every call outside a fault, reports an error; calls
// on arrays in memory (sort.h, array_calls.h) throw std::invalid_argument instead, and where there
// is no memory std::bad_alloc may be thrown.
// code() carries the errno value. what() names the operation, the object (stream, pool, path), the
// limit that was hit and, where there is one, the way out, and ends with the system's word for the
// errno value. It is one line that can be printed on a terminal: control characters in a name are
// escaped, see printable().
class VORTEX_EXPORT Error : public std::system_error {
 public:
  Error(int errno_value, const std::string& message)
      : std::system_error(errno_value, std::generic_category(), printable(message)),
        message_size_(printable(message).size()) {}

  // what() without the system's word: for messages around this one, which have a code of their own.
  std::string_view message() const noexcept { return {what(), message_size_}; }

 private:
  std::size_t message_size_;
};

// Throws the Error. For templates in headers, which programs without exceptions compile as well.
[[noreturn]] VORTEX_EXPORT void throw_error(int errno_value, const std::string& message);

// The errno value that an exception carries, ENOMEM for std::bad_alloc; `otherwise` where it
// carries none. Neither allocates nor throws, like message_of().
VORTEX_EXPORT int errno_of(const std::exception& exception, int otherwise) noexcept;

// The text of an exception: Error::message(), else what(). The result lives as long as the
// exception.
VORTEX_EXPORT std::string_view message_of(const std::exception& exception) noexcept;

// "2 MiB", "1.5 GiB", "4097 bytes": exact when a unit divides the count, two digits otherwise.
VORTEX_EXPORT std::string format_bytes(std::uint64_t bytes);

// Text put together without allocating: a line of at most kCapacity bytes; what does not fit is cut
// off. Async-signal-safe.
template <std::size_t kCapacity>
class LineBuffer {
 public:
  constexpr LineBuffer& text(std::string_view piece) noexcept {
    for (char c : piece) {
      if (size_ + 1 >= kCapacity) break;
      bytes_[size_++] = c;
    }
    bytes_[size_] = '\0';
    return *this;
  }

  constexpr LineBuffer& number(std::uint64_t value) noexcept {
    std::array<char, 20> reversed{};
    std::size_t count = 0;
    do {
      reversed[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (count > 0) text({&reversed[--count], 1});
    return *this;
  }

  constexpr std::string_view view() const noexcept { return {bytes_.data(), size_}; }
  const char* c_str() const noexcept { return bytes_.data(); }
  bool empty() const noexcept { return size_ == 0; }

 private:
  std::array<char, kCapacity> bytes_{};
  std::size_t size_ = 0;
};

// The result of one step inside a fault: an errno value (0: it went well) and a sentence that
// outlives the fault (a literal, or text owned by the object that reports it).
struct Status {
  int error = 0;
  const char* cause = "";

  bool ok() const noexcept { return error == 0; }
};

// A cause in words; longer texts are cut.
using CauseText = LineBuffer<512>;

// The first error of a stream. Trivially copyable; copying and reading it is async-signal-safe,
// except for message().
struct VORTEX_EXPORT Failure {
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

  // Throws the failure as a StreamError if there is one; its what() is message().
  void throw_if_failed() const;

 private:
  LineBuffer<768> text() const noexcept;  // message() without the system's word
};

// What a failure is thrown as, for programs that tell people what happened and not where in a
// stream.
class VORTEX_EXPORT StreamError : public Error {
 public:
  // what() is failure.message(), of which `text` is all but the system's word.
  StreamError(const Failure& failure, const std::string& text);
  ~StreamError() override;

  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

struct HandlerStack;
struct ServiceFrame;

// One guarded() call of a thread. `serving` is the region that the thread was inside of when it
// began: those nested deeper are abandoned when control comes back here. `stack` is the stack of
// the library's that it lies on.
struct VORTEX_EXPORT GuardFrame {
  GuardFrame() noexcept;
  ~GuardFrame();
  GuardFrame(const GuardFrame&) = delete;
  GuardFrame& operator=(const GuardFrame&) = delete;

  // Why control came back early, or why a system call of the body failed (see below).
  Failure result() const noexcept;

  sigjmp_buf target;
  Failure failure;
  GuardFrame* outer;
  ServiceFrame* serving;
  HandlerStack* stack;
  bool counted;
};

// Runs `body()`. When a fault that a stream cannot serve happens in it on this thread, control
// leaves the body at the faulting instruction and the stream's failure is returned; otherwise the
// result converts to false. Exceptions of the body pass through.
//
// When control leaves like that, the destructors of objects inside the body do NOT run (as with
// longjmp, which it is): keep what owns memory or locks outside. Guarded scopes nest; the innermost
// takes the failure. Costs nothing per fault, and some 20 ns per call. Does not allocate.
//
// Under the engine userfaultfd a fault of the kernel's on behalf of a system call ends the call,
// not the body: it returns EFAULT or a short count, the body goes on, and the failure is returned
// when the body ends.
template <typename Body>
[[nodiscard]] Failure guarded(Body&& body) {
  GuardFrame frame;
  // The mask is not saved, which would be a system call: the handler restores that of the code it
  // interrupted. The fences keep the body's accesses inside: the compiler knows no other reason.
  if (sigsetjmp(frame.target, 0) == 0) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    std::forward<Body>(body)();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  return frame.result();
}

}}  // namespace vortex::v0
