#include "sort/arrays/scratch.h"

#include <sys/mman.h>

#include <new>

namespace vortex { inline namespace v0 { namespace detail {

namespace {

constexpr std::align_val_t kHugePage{std::size_t{2} << 20};

}  // namespace

ScratchMemory::ScratchMemory(std::size_t bytes) {
  if (bytes <= kMostKept) {
    small_.emplace(bytes, true);
    return;
  }
  large_ = ::operator new(bytes, kHugePage);
  // A refusal costs time, no more.
  madvise(large_, bytes, MADV_HUGEPAGE);
}

ScratchMemory::~ScratchMemory() {
  if (large_ != nullptr) ::operator delete(large_, kHugePage);
}

}}}  // namespace vortex::v0::detail
