#include "vortex/vanishing_array.h"

#include <cerrno>
#include <mutex>
#include <utility>

#include "vortex/stream/pooled_blocks.h"
#include "vortex/thread/futex.h"

namespace vortex { inline namespace v0 {

BucketStream::BucketStream(StreamPool& pool, Options options)
    : PooledStream(std::move(options.name), pool, options.reserve_bytes),
      comeback_blocks_(options.comeback_blocks),
      guarded_by_seal_(options.guarded_by_seal) {
  open();
}

BucketStream::~BucketStream() { close_and_give_back(); }

int BucketStream::truncate(std::uint64_t bytes) noexcept {
  if (inherited()) return EFAULT;
  const std::uint64_t kept = bytes / block_bytes() + 1;
  if (kept >= blocks().extent()) return 0;
  std::lock_guard lock(mutex());
  // Whoever reads next is another reader than the one whose data are gone.
  last_front_ = kNone;
  if (entered_ != kNone && entered_ >= kept) entered_ = kNone;
  return blocks().give_back(kept, blocks().extent());
}

int BucketStream::seal() noexcept {
  if (inherited()) return EFAULT;
  std::lock_guard lock(mutex());
  forget_reader();
  return blocks().guard_all();
}

int BucketStream::clear() noexcept {
  if (inherited()) return EFAULT;
  std::lock_guard lock(mutex());
  forget_reader();
  return blocks().give_back(0, blocks().extent());
}

void BucketStream::forget_reader() noexcept {
  last_front_ = entered_ = kNone;
  reading_from_ = 0;
}

int BucketStream::serve_write(std::uint64_t index) noexcept {
  if (const int error = blocks().open(index)) return error;
  // The writer has left the block, so what it holds can be read.
  if (guarded_by_seal_ || index <= comeback_blocks_) return 0;
  const std::uint64_t left = index - 1 - comeback_blocks_;
  return blocks().state(left) == BlockState::kOpen ? blocks().guard(left, blocks().tick()) : 0;
}

int BucketStream::serve_read(std::uint64_t index, bool at_front) noexcept {
  if (const int error = leave_entered(index)) return error;
  if (index < reading_from_) {
    if (const int error = guard_above(reading_from_)) return error;
  }
  const std::uint64_t guard_set_at = blocks().guarded_at(index);
  if (const int error = blocks().open(index)) return error;
  if (!at_front) {
    // Behind a comeback the same reader is at work; otherwise a new one starts here.
    const bool comes_back =
        last_front_ != kNone && index < last_front_ && last_front_ - index <= comeback_blocks_;
    if (comes_back) return 0;
    last_front_ = kNone;
    entered_ = reading_from_ = index;
    return 0;
  }
  const bool follows = last_front_ != kNone && index == last_front_ + 1;
  if (!follows) run_begin_ = index;
  // A reader that entered the block before in its middle has been seen already.
  if (!follows && index != reading_from_ + 1) reading_from_ = index;
  const bool nothing_appended = guard_set_at < last_front_at_;
  const bool may_free = follows && nothing_appended && index - run_begin_ > comeback_blocks_ &&
                        blocks().state(index - 1 - comeback_blocks_) == BlockState::kOpen;
  last_front_ = index;
  last_front_at_ = blocks().tick();
  return may_free ? blocks().give_back(index - 1 - comeback_blocks_) : 0;
}

int BucketStream::leave_entered(std::uint64_t index) noexcept {
  if (entered_ == kNone || (index >= entered_ && index - entered_ <= comeback_blocks_)) return 0;
  const std::uint64_t left = std::exchange(entered_, kNone);
  return blocks().state(left) == BlockState::kOpen ? blocks().guard(left, blocks().guarded_at(left))
                                                   : 0;
}

int BucketStream::guard_above(std::uint64_t index) noexcept {
  for (; index < blocks().extent(); ++index) {
    if (blocks().state(index) != BlockState::kOpen) continue;
    if (const int error = blocks().guard(index, blocks().tick())) return error;
  }
  return 0;
}

}}  // namespace vortex::v0
