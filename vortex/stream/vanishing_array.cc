#include "vortex/vanishing_array.h"

#include <algorithm>
#include <utility>

#include "vortex/detail/stream/block_ranges.h"
#include "vortex/stream/pooled_blocks.h"

namespace vortex { inline namespace v0 {

VanishingArrayBase::VanishingArrayBase(StreamPool& pool, std::uint64_t capacity_bytes,
                                       Options options)
    : PooledStream(std::move(options.name), pool, capacity_bytes),
      comeback_blocks_(options.comeback_blocks) {
  open();
}

VanishingArrayBase::~VanishingArrayBase() { close_and_give_back(); }

int VanishingArrayBase::serve_write(std::uint64_t index) noexcept {
  if (const int error = blocks().open(index)) return error;
  const bool continues = writing_ != kNone && index > writing_;
  // A writer that starts elsewhere has left all its blocks, one that goes on those out of its
  // reach.
  const std::uint64_t left = !continues                 ? (writing_ == kNone ? 0 : writing_ + 1)
                             : index > comeback_blocks_ ? index - comeback_blocks_
                                                        : 0;
  if (write_begin_ == kNone) write_begin_ = index;
  for (; write_begin_ < left; ++write_begin_) {
    if (blocks().state(write_begin_) != BlockState::kOpen || write_begin_ == index) continue;
    if (const int refused = blocks().guard(write_begin_, blocks().tick())) return refused;
  }
  if (!continues) write_begin_ = index;
  writing_ = index;
  return 0;
}

int VanishingArrayBase::serve_read(std::uint64_t index, bool) noexcept {
  if (const int error = blocks().open(index)) return error;
  const bool continues = reading_ != kNone && index > reading_;
  if (!continues) read_begin_ = index;
  reading_ = index;
  for (; index - read_begin_ > comeback_blocks_; ++read_begin_) {
    if (blocks().state(read_begin_) != BlockState::kOpen) continue;
    if (const int error = blocks().give_back(read_begin_)) return error;
  }
  return 0;
}

void VanishingArrayBase::finish_writing() {
  const ServiceLock lock(*this);
  require(blocks().guard_all(), "guarding it");
  writing_ = write_begin_ = reading_ = read_begin_ = kNone;
}

void VanishingArrayBase::finish_reading() {
  const ServiceLock lock(*this);
  if (reading_ == kNone) return;
  for (; read_begin_ <= reading_; ++read_begin_) {
    if (blocks().state(read_begin_) != BlockState::kOpen) continue;
    require(blocks().give_back(read_begin_), "giving it back");
  }
  reading_ = read_begin_ = kNone;
}

void VanishingArrayBase::clear() {
  const ServiceLock lock(*this);
  require(blocks().give_back(0, blocks().extent()), "giving it back");
  writing_ = write_begin_ = reading_ = read_begin_ = kNone;
}

void VanishingArrayBase::require(int error, const char* what) const {
  if (error == 0) return;
  const std::string cause = error == EINVAL ? "" : std::string(": ") + cause_of(error);
  throw Error(error, "vanishing array '" + name() + "': " + what + cause);
}

void VanishingArrayBase::load_parts(
    std::uint64_t bytes, std::uint64_t part_bytes,
    const std::function<void(std::uint64_t offset, std::uint64_t bytes)>& read) {
  try {
    for (std::uint64_t offset = 0; offset < bytes; offset += part_bytes) {
      const std::uint64_t part = std::min(part_bytes, bytes - offset);
      require(detail::BlockRanges::open(*this, offset, part), "loading it");
      read(offset, part);
    }
  } catch (...) {
    clear();
    throw;
  }
}

}}  // namespace vortex::v0
