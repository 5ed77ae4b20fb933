// A handle of the C interface with its last error, and the way from exceptions to errno values.
#pragma once

#include <cerrno>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "vortex/error.h"
#include "vortex/fault/unguarded_scope.h"

namespace vortex::inline v0::capi {

// The text of an error. Setting it never fails: without memory for a text it says that.
class ErrorText {
 public:
  void set(const char* text) noexcept {
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

// The same for a call that makes a handle: `make` returns the std::unique_ptr of it.
template <typename H, typename Make>
int answer_with(H** handle, Make&& make) noexcept {
  return answer(thread_error(), [&] { *handle = std::forward<Make>(make)().release(); });
}

// The errno value that C code gives as a negative number; `otherwise` for what is none.
inline int errno_from(std::int64_t negative, int otherwise) noexcept {
  if (negative >= 0 || negative < -std::numeric_limits<int>::max()) return otherwise;
  return static_cast<int>(-negative);
}

// The text that a caller must give.
inline std::string required(const char* text, const char* what) {
  if (text == nullptr) throw Error(EINVAL, std::string(what) + " is NULL");
  return text;
}

// A field of options: 0 is the default.
template <typename T, typename U>
void set_unless_zero(T& option, U value) noexcept {
  if (value != 0) option = static_cast<T>(value);
}

}  // namespace vortex::inline v0::capi
