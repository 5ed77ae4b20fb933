#include "lines/long_room.h"

#include <sys/mman.h>

#include <utility>

#include "vortex/detail/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex::inline v0 {
namespace {

std::uint64_t whole_pages(std::uint64_t bytes) noexcept {
  return detail::round_up(bytes, os::page_bytes());
}

}  // namespace

LongRoomBudget::LongRoomBudget(std::uint64_t bytes)
    : bytes_(bytes / os::page_bytes() * os::page_bytes()), left_(bytes_) {}

LongRoom::~LongRoom() {
  if (data_ == nullptr) return;
  budget_->left_ += size_;
  os::unmap(reinterpret_cast<std::byte*>(data_), budget_->bytes_);
}

bool LongRoom::grow(std::size_t bytes) {
  const std::uint64_t wanted = whole_pages(bytes);
  if (wanted <= size_) return true;
  if (wanted - size_ > budget_->left_) return false;
  if (data_ == nullptr) {
    int error = 0;
    std::byte* const memory = os::map_memory(nullptr, budget_->bytes_, &error);
    if (memory == nullptr) {
      throw Error(error, "memory for long records: the system refuses " +
                             format_bytes(budget_->bytes_) + " of address space");
    }
    // A huge page would be resident as a whole where the budget counts its first bytes.
    os::advise(memory, budget_->bytes_, MADV_NOHUGEPAGE);
    data_ = reinterpret_cast<char*>(memory);
  }
  budget_->left_ -= wanted - size_;
  size_ = wanted;
  return true;
}

void LongRoom::grow_to_most() { grow(size_ + budget_->left_); }

void LongRoom::shrink(std::size_t bytes) noexcept {
  const std::uint64_t kept = whole_pages(bytes);
  if (kept >= size_) return;
  os::advise(reinterpret_cast<std::byte*>(data_) + kept, size_ - kept, MADV_DONTNEED);
  budget_->left_ += size_ - kept;
  size_ = kept;
}

void LongRoom::swap(LongRoom& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

}  // namespace vortex::inline v0
