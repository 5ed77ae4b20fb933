// Working memory of small sorts, kept for the next one.
#pragma once

#include <cstddef>

namespace vortex::inline v0::detail {

// Memory that starts at a page. A thread keeps what its last small sorts have used, until it ends
// or calls release(): where sorting takes some hundred microseconds, faulting in fresh memory each
// time takes as long. What is kept is part of no budget. Not to be handed to another thread.
class KeptMemory {
 public:
  static constexpr std::size_t kAlignment = 4096;
  // A thread keeps as many pieces as a sort uses, of this many bytes together. Most of the largest
  // is address space that a small sort never touches.
  static constexpr std::size_t kMostKept = 2;
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;

  // Allocates unless the thread has kept a piece that is large enough. `keep`: the sort is small.
  // Throws std::bad_alloc.
  KeptMemory(std::size_t bytes, bool keep);
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  void* get() const noexcept { return memory_; }

  // Of the calling thread: what it keeps, in bytes; and gives that back.
  static std::size_t kept_bytes() noexcept;
  static void release() noexcept;

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
  const bool keep_;
};

}  // namespace vortex::inline v0::detail
