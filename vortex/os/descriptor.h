// Descriptors that close themselves, and calls that a signal interrupts.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

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
