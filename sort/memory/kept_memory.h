// Working memory of small sorts, kept for the next one.
#pragma once

#include <cstddef>

namespace vortex::inline v0::detail {

// Memory that starts at a page. A thread keeps what its last small sorts have used, until it ends:
// where sorting takes some hundred microseconds, faulting in fresh memory each time takes as long.
// Not to be handed to another thread.
class KeptMemory {
 public:
  static constexpr std::size_t kAlignment = 4096;
  // A thread keeps as many pieces as a sort uses, none larger than this. Most of the largest is
  // address space that a small sort never touches.
  static constexpr std::size_t kMostKept = 4;
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;

  // Allocates unless the thread has kept a piece that is large enough. `keep`: the sort is small.
  // Throws std::bad_alloc.
  KeptMemory(std::size_t bytes, bool keep);
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  void* get() const noexcept { return memory_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
  const bool keep_;
};

}  // namespace vortex::inline v0::detail
