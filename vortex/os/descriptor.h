// Descriptors that close themselves, events, and calls that a signal interrupts.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "vortex/thread/this_thread.h"

namespace vortex { inline namespace v0 { namespace os {

// An open descriptor, or none. Closes it, unless it is somebody else's.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor, bool owned = true) noexcept
      : descriptor_(descriptor), owned_(owned) {}
  ~Descriptor() {
    if (descriptor_ >= 0 && owned_) close(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), owned_(other.owned_) {}
  Descriptor& operator=(Descriptor other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(owned_, other.owned_);
    return *this;
  }

  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  int get() const noexcept { return descriptor_; }
  bool owned() const noexcept { return owned_; }

 private:
  int descriptor_ = -1;
  bool owned_ = true;
};

// File systems of other machines, and of programs, may tell at the end alone that they have lost
// what was written before. False: errno says why.
inline bool writes_have_ended_well(int descriptor) noexcept {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  return copy < 0 || close(copy) == 0 || errno == EINTR;
}

// An event for poll(2), or none, where the system has no descriptor left. All but making it may be
// called inside a fault, by any thread.
class Event {
 public:
  explicit operator bool() const noexcept { return static_cast<bool>(descriptor_); }
  // It can be read once signal() has been called, until clear() is.
  int get() const noexcept { return descriptor_.get(); }
  void signal() const noexcept {
    const KeptErrno kept;
    const std::uint64_t one = 1;
    // Fails only when the event is signalled already.
    if (write(get(), &one, sizeof one) < 0) return;
  }
  void clear() const noexcept {
    const KeptErrno kept;
    std::uint64_t count = 0;
    while (read(get(), &count, sizeof count) < 0 && errno == EINTR) {
    }
  }

 private:
  Descriptor descriptor_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// Repeats a call that returns 0 or sets errno: tmpfs, for one, gives up allocating when a timer's
// signal comes.
template <typename Call>
int uninterrupted(Call call) {
  int result = 0;
  do {
    result = call();
  } while (result != 0 && errno == EINTR);
  return result;
}

}}}  // namespace vortex::v0::os
