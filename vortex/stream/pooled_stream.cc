#include "vortex/stream/pooled_stream.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/pool/move_failure.h"

namespace vortex::inline v0 {
namespace {

Reservation reservation_of(std::uint64_t bytes, std::size_t block_bytes) {
  const std::uint64_t whole_blocks = (bytes + block_bytes - 1) / block_bytes * block_bytes;
  return Reservation({.bytes = whole_blocks});
}

}  // namespace

PooledStream::PooledStream(std::string name, StreamPool& pool, std::uint64_t reserve_bytes)
    : Stream(std::move(name), reservation_of(reserve_bytes, pool.block_bytes())),
      pool_(pool),
      block_bytes_(pool.block_bytes()) {
  const std::size_t page = os::page_bytes();
  slots_bytes_ = (block_limit() * sizeof(Slot) + page - 1) / page * page;
  int error = 0;
  slots_ = reinterpret_cast<Slot*>(os::map_memory(nullptr, slots_bytes_, &error));
  if (slots_ == nullptr) {
    throw Error(error, "stream '" + this->name() + "': the system refuses " +
                           format_bytes(slots_bytes_) + " for the table of its blocks");
  }
}

PooledStream::~PooledStream() {
  if (!inherited()) os::unmap(reinterpret_cast<std::byte*>(slots_), slots_bytes_);
}

void PooledStream::close_and_give_back() noexcept {
  const bool in_child = inherited();
  close();
  if (in_child) return;
  for (std::uint64_t index = 0; index < extent_; ++index) {
    if (state(index) == State::kEmpty || give_back(index) == 0) continue;
    const Block block{slots_[index].block_plus_one - 1};
    pool_.blocks().give_up(block);
    pool_.give_back(block);
  }
}

bool PooledStream::handle_fault(Access access, std::uint64_t offset) noexcept {
  const std::uint64_t index = offset / block_bytes_;
  const State before = state(index);
  if (before == State::kOpen) {
    note_spurious_fault();
    return true;
  }
  if (before == State::kEmpty && access == Access::kRead) {
    return fail(EFAULT, "a read of what was never written, or has been read already", offset);
  }
  // Where the processor does not tell, what is empty is being written and what is guarded read.
  const bool is_write =
      access == Access::kWrite || (access == Access::kUnknown && before == State::kEmpty);
  const int error = is_write ? serve_write(index) : serve_read(index, offset % block_bytes_ == 0);
  return error == 0 || fail(error, cause_of(error), offset);
}

int PooledStream::place_empty(std::uint64_t index) noexcept {
  if (index >= block_limit()) return ENOSPC;
  const auto [block, error] = pool_.take();
  if (error != 0) return error;
  if (const int refused = pool_.blocks().place(block, base() + index * block_bytes_)) {
    pool_.give_back(block);
    return refused;
  }
  Slot& slot = slots_[index];
  slot.block_plus_one = block.index + 1;
  slot.state = State::kOpen;
  extent_ = std::max(extent_, index + 1);
  held_.fetch_add(1, std::memory_order_relaxed);
  if (meter_ != nullptr) meter_->add(1);
  return 0;
}

int PooledStream::guard(std::uint64_t index, std::uint64_t since) noexcept {
  const int error = os::forbid_access(base() + index * block_bytes_, block_bytes_);
  if (error != 0) return error;
  slots_[index].state = State::kGuarded;
  slots_[index].guarded_at = since;
  return 0;
}

int PooledStream::unguard(std::uint64_t index) noexcept {
  const int error = os::allow_access(base() + index * block_bytes_, block_bytes_);
  if (error == 0) slots_[index].state = State::kOpen;
  return error;
}

int PooledStream::give_back(std::uint64_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.state == State::kGuarded) {
    if (const int error = unguard(index)) return error;
  }
  const Block block{slot.block_plus_one - 1};
  if (const int error = pool_.blocks().withdraw(block)) return error;
  slot.block_plus_one = 0;
  slot.state = State::kEmpty;
  held_.fetch_sub(1, std::memory_order_relaxed);
  if (meter_ != nullptr) meter_->remove(1);
  pool_.give_back(block);
  return 0;
}

void PooledStream::count_with(BlockMeter* meter) noexcept {
  std::lock_guard lock(mutex());
  if (meter_ != nullptr) meter_->remove(held_blocks());
  meter_ = meter;
  if (meter_ != nullptr) meter_->add(held_blocks());
}

int PooledStream::open_range(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes == 0) return 0;
  if (offset + bytes > reserved_bytes()) return ENOSPC;
  std::lock_guard lock(mutex());
  for (std::uint64_t index = offset / block_bytes_; index * block_bytes_ < offset + bytes;
       ++index) {
    int error = 0;
    if (state(index) == State::kEmpty) error = place_empty(index);
    if (state(index) == State::kGuarded) error = unguard(index);
    if (error != 0) return error;
  }
  return 0;
}

int PooledStream::give_back_range(std::uint64_t begin, std::uint64_t end) noexcept {
  std::lock_guard lock(mutex());
  const std::uint64_t last = std::min(end / block_bytes_, extent_);
  for (std::uint64_t index = (begin + block_bytes_ - 1) / block_bytes_; index < last; ++index) {
    if (state(index) == State::kEmpty) continue;
    if (const int error = give_back(index)) return error;
  }
  return 0;
}

const char* PooledStream::cause_of(int error) noexcept {
  switch (error) {
    case ENOSPC:
      return "the reservation ends here: raise reserve_bytes";
    case EAGAIN:
      return "every block of its StreamPool is in use: make the pool larger";
    default:
      return kCannotMoveBlock;
  }
}

}  // namespace vortex::inline v0
