// Memory that a call uses and gives back.
#pragma once

#include <cstddef>
#include <optional>

#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// Memory from a page on. A little of it is kept for the thread's next call; more lies on huge pages
// where the system grants them, since touching fresh small pages takes as long as sorting what they
// hold.
class VORTEX_EXPORT ScratchMemory {
 public:
  // Throws std::bad_alloc.
  explicit ScratchMemory(std::size_t bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  void* get() const noexcept { return small_ ? small_->get() : large_; }

 private:
  static constexpr std::size_t kMostKept = std::size_t{1} << 20;

  std::optional<KeptMemory> small_;
  void* large_ = nullptr;
};

// Room for `count` objects that no constructor has touched.
template <typename T>
class Scratch {
 public:
  explicit Scratch(std::size_t count) : memory_(saturating_product(count, sizeof(T))) {}
  T* get() const noexcept { return static_cast<T*>(memory_.get()); }

 private:
  ScratchMemory memory_;
};

}}}  // namespace vortex::v0::detail
