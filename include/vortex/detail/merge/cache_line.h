// Memory that shares no cache line with another thread's.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace vortex { inline namespace v0 { namespace detail {

// Of x86-64; elsewhere lines are seldom longer.
inline constexpr std::size_t kCacheLineBytes = 64;

// Gives whole cache lines.
template <typename T>
struct LineAllocator {
  using value_type = T;

  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(::operator new ((bytes + kCacheLineBytes - 1) & ~(kCacheLineBytes - 1),
                                           std::align_val_t{kCacheLineBytes}));
  }
  void deallocate(T* memory, std::size_t) noexcept {
    ::operator delete (memory, std::align_val_t{kCacheLineBytes});
  }

  bool operator==(const LineAllocator&) const = default;
};

template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

}}}  // namespace vortex::v0::detail
