// A handle of the C interface with its last error, and the way from exceptions to errno values.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/engine/thread_state.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 { namespace capi {

// The text of an error. Setting it never fails: without memory for a text it says that.
class ErrorText {
 public:
  ErrorText() = default;
  // For threads that have no memory for one of their own: nothing is ever set.
  static ErrorText of_all() noexcept {
    ErrorText text;
    text.lost_ = text.is_of_all_ = true;
    return text;
  }
  void set(const char* text) noexcept {
    if (is_of_all_) return;
    try {
      text_ = text;
      lost_ = false;
    } catch (...) {
      lost_ = true;
    }
  }
  const char* c_str() const noexcept {
    return lost_ ? "there is no memory for the text of the error" : text_.c_str();
  }

 private:
  std::string text_;
  bool lost_ = false;
  bool is_of_all_ = false;
};

// The base, at offset 0, of all that a handle points to: vtx_strerror() takes any of them.
class Handle {
 public:
  virtual ~Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  ErrorText& error() const noexcept { return error_; }

 protected:
  Handle() = default;

 private:
  mutable ErrorText error_;
};

// For calls that have no handle yet.
ErrorText& thread_error() noexcept;

// Runs the C++ side of a call. Returns 0, or the negative errno value of what it throws, whose text
// goes to `text`. Control leaves it in no other way.
template <typename Call>
int answer(ErrorText& text, Call&& call) noexcept {
  const UnguardedScope scope;
  try {
    std::forward<Call>(call)();
    return 0;
  } catch (const std::bad_alloc&) {
    text.set("the system refuses memory");
    return -ENOMEM;
  } catch (const std::length_error&) {
    text.set("no address space is large enough");
    return -ENOMEM;
  } catch (const std::exception& exception) {
    text.set(exception.what());
    return -errno_of(exception, EIO);
  } catch (...) {
    text.set("an exception of an unknown type");
    return -EIO;
  }
}

template <typename Call>
int answer(const Handle& handle, Call&& call) noexcept {
  return answer(handle.error(), std::forward<Call>(call));
}

// Where a result goes.
template <typename T>
void expect_place(const T* place) {
  if (place == nullptr) throw Error(EINVAL, "the place for the result is NULL");
}

// The same for a call that makes a handle: `make` returns the std::unique_ptr of it.
template <typename H, typename Make>
int answer_with(H** handle, Make&& make) noexcept {
  return answer(thread_error(), [&] {
    expect_place(handle);
    *handle = std::forward<Make>(make)().release();
  });
}

// The errno value that C code gives as a negative number; `otherwise` for what is none.
inline int errno_from(std::int64_t negative, int otherwise) noexcept {
  if (negative >= 0 || negative < -std::numeric_limits<int>::max()) return otherwise;
  return static_cast<int>(-negative);
}

// What a function of the program returns, which may touch streams and fail as they do: every
// callback is a guarded scope of its own. Throws the stream's error.
template <typename Call>
auto call_back(const Call& call) {
  decltype(call()) result = 0;
  guarded([&] { result = call(); }).throw_if_failed();
  return result;
}
// Throws the errno value that `what` has returned as a negative number.
[[noreturn]] inline void throw_returned(const char* what, std::int64_t result, int otherwise) {
  throw Error(errno_from(result, otherwise),
              std::string(what) + " returned " + std::to_string(result));
}

// The text that a caller must give.
inline std::string required(const char* text, const char* what) {
  if (text == nullptr) throw Error(EINVAL, std::string(what) + " is NULL");
  return text;
}

// `count` elements of `element_bytes` each, which a caller says are there.
inline void expect_array(const void* array, std::size_t count, std::size_t element_bytes,
                         const char* what) {
  if (array == nullptr && count != 0) throw Error(EINVAL, std::string(what) + " are NULL");
  if (detail::saturating_product(count, element_bytes) >
      std::size_t{std::numeric_limits<std::ptrdiff_t>::max()}) {
    throw Error(EINVAL,
                std::string(what) + " are " + std::to_string(count) + ", which no memory holds");
  }
}

}}}  // namespace vortex::v0::capi
