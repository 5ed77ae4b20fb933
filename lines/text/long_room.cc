#include "lines/text/long_room.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "sort/plan/memory_limits.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"

namespace vortex { inline namespace v0 {

namespace {

// A room takes this share of the address space that is left: each input has several rooms.
constexpr std::uint64_t kShareOfSpace = 32;

std::uint64_t whole_pages(std::uint64_t bytes) noexcept {
  return detail::round_up(bytes, os::page_bytes());
}

}  // namespace

LongRoomBudget::LongRoomBudget(std::uint64_t bytes)
    : bytes_(bytes / os::page_bytes() * os::page_bytes()), left_(bytes_) {}

LongRoom::~LongRoom() {
  if (data_ == nullptr) return;
  budget_->left_ += size_;
  os::unmap(reinterpret_cast<std::byte*>(data_), static_cast<std::size_t>(capacity_));
}

// Maps the size of the budget, or less where the process has little address space.
void LongRoom::map(std::uint64_t least) {
  capacity_ = budget_->bytes_;
  if (stack_bytes_of_thread() != 0) {
    const std::uint64_t space = address_space_left();
    const std::uint64_t left = std::min(space, private_memory_left().value_or(space));
    capacity_ = std::min(capacity_, std::max(whole_pages(left / kShareOfSpace), least));
  }
  int error = 0;
  std::byte* const memory = os::map_memory(nullptr, static_cast<std::size_t>(capacity_), &error);
  if (memory == nullptr) {
    throw Error(error, "memory for long records: the system refuses " + format_bytes(capacity_) +
                           " of address space; " + address_space_advice());
  }
  // A huge page would be resident as a whole where the budget counts its first bytes.
  os::advise(memory, static_cast<std::size_t>(capacity_), MADV_NOHUGEPAGE);
  data_ = reinterpret_cast<char*>(memory);
}

bool LongRoom::grow(std::size_t bytes) {
  const std::uint64_t wanted = whole_pages(bytes);
  if (wanted <= size_) return true;
  if (wanted - size_ > budget_->left_) return false;
  if (data_ == nullptr) map(wanted);
  if (wanted > capacity_) return false;
  budget_->left_ -= wanted - size_;
  size_ = wanted;
  return true;
}

void LongRoom::grow_to_most() {
  if (data_ == nullptr && budget_->left_ > 0) map(0);
  grow(static_cast<std::size_t>(std::min(size_ + budget_->left_, capacity_)));
}

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
  std::swap(capacity_, other.capacity_);
}

}}  // namespace vortex::v0
