// Working memory of small sorts, kept for the next one.
#pragma once

#include <cstddef>

#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Memory that starts at a page. A thread keeps the memory of its last small sorts until it ends or
// calls release(): a small sort takes some hundred microseconds, and faulting in fresh memory each
// time takes as long. No budget counts the memory that is kept. The object must not be handed to
// another thread.
class VORTEX_EXPORT KeptMemory {
 public:
  static constexpr std::size_t kAlignment = 4096;
  // A thread keeps as many pieces as a sort uses, of this many bytes together. Most of the largest
  // is address space that a small sort never touches.
  static constexpr std::size_t kMaxKept = 2;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;

  // Allocates unless the thread has kept a piece that is large enough. `keep`: the sort is small.
  // Throws std::bad_alloc.
  KeptMemory(std::size_t bytes, bool keep);
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  void* get() const noexcept { return memory_; }

  // kept_bytes() tells how many bytes the calling thread keeps; release() gives them back.
  static std::size_t kept_bytes() noexcept;
  static void release() noexcept;

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
  const bool keep_;
};

}}}  // namespace vortex::v0::detail
