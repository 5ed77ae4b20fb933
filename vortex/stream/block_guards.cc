#include "vortex/stream/block_guards.h"

#include <utility>

#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

BlockGuards::BlockGuards(std::size_t slots, std::shared_ptr<os::Userfaultfd> userfaultfd)
    : userfaultfd_(std::move(userfaultfd)), bytes_(slots * os::page_bytes()) {
  if (userfaultfd_ == nullptr) return;
  int error = 0;
  pages_ = os::map_memory(nullptr, bytes_, &error);
  if (pages_ == nullptr) throw Error(error, "no memory for the pages of guards");
  // Pages move to armed memory only.
  if ((error = userfaultfd_->arm(pages_, bytes_)) != 0) {
    os::unmap(pages_, bytes_);
    throw Error(error, "the kernel refuses to serve the pages of guards");
  }
}

BlockGuards::~BlockGuards() {
  if (pages_ != nullptr) os::unmap(pages_, bytes_);
}

int BlockGuards::set(std::byte* page, std::size_t slot) noexcept {
  if (pages_ == nullptr) return os::forbid_access(page, os::page_bytes());
  return userfaultfd_->move(page, kept(slot), os::page_bytes()).error;
}

int BlockGuards::lift(std::byte* page, std::size_t slot) noexcept {
  if (pages_ == nullptr) return os::allow_access(page, os::page_bytes());
  return userfaultfd_->move(kept(slot), page, os::page_bytes()).error;
}

void BlockGuards::forget(std::size_t slot) noexcept {
  if (pages_ != nullptr) os::discard(kept(slot), os::page_bytes());
}

std::byte* BlockGuards::kept(std::size_t slot) const noexcept {
  return pages_ + slot * os::page_bytes();
}

}}  // namespace vortex::v0
