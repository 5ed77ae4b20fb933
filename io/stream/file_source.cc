#include "io/stream/file_source.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "io/file/own_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

std::size_t FileSource::blocks_needed(const FileSourceOptions& options, std::size_t block_bytes,
                                      std::size_t unit_bytes, std::optional<std::uint64_t> length) {
  expect_block_count("a reader", "comeback_blocks", options.blocks_for_stream);
  expect_block_count("a reader", "read_ahead", options.read_ahead);
  // The window may begin and end in the middle of a group.
  const std::size_t group =
      RequestUnits::group(block_bytes, options.requests.request_bytes, unit_bytes);
  const std::size_t needed =
      detail::saturating_sum(options.blocks_for_stream + 2 * (group - 1),
                             detail::saturating_product(options.read_ahead, group));
  if (!length) return needed;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(needed, blocks_of_file(*length, block_bytes)));
}

FileSource::FileSource(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                       const FileSourceOptions& options)
    : units_(pool, std::move(layout), options.requests, RequestUnits::Use::kReading),
      read_ahead_(options.read_ahead),
      blocks_for_stream_(options.blocks_for_stream),
      reads_(Operation::kRead, pool, options.requests.caching),
      quota_(units_.quota(blocks_needed(options, pool.block_bytes(), units_.layout().unit_bytes(),
                                        units_.layout().length()))),
      slots_(detail::units_for(blocks_for_stream_, units_.group()) + read_ahead_ + 2),
      length_(units_.layout().length().value_or(kNone)) {
  if (units_.caching() == Caching::kBuffered && !units_.layout().sequential()) {
    posix_fadvise(units_.layout().locate(0, units_.bytes()).file->descriptor(), 0, 0,
                  POSIX_FADV_SEQUENTIAL);
  }
}

FileSource::~FileSource() {
  if (pool().inherited()) return;
  units_.layout().cancel();
  for (Slot& slot : slots_) retire(slot);
}

std::optional<std::uint64_t> FileSource::length() const noexcept {
  const std::uint64_t length = length_.load(std::memory_order_acquire);
  if (length == kNone) return std::nullopt;
  return length;
}

// Where the length is not known, the first request that came back short tells it; those behind it
// had nothing to read. It need not be the one that a reader who jumps looks at first.
void FileSource::note_end(const Slot& slot) noexcept {
  if (length_.load(std::memory_order_relaxed) != kNone) return;
  for (std::uint64_t unit = std::min(lowest_unit_, slot.unit); unit <= slot.unit; ++unit) {
    const Slot& earlier = slot_of(unit);
    const Request& request = earlier.read.request;
    if (earlier.unit != unit || request.under_way() || request.error != 0) continue;
    if (request.bytes_done == request.bytes) continue;
    length_.store(unit * units_.bytes() + request.bytes_done, std::memory_order_release);
    return;
  }
}

// Gives the blocks of the slot back, once nobody writes into them any more.
void FileSource::retire(Slot& slot) noexcept {
  if (slot.unit == kNone) return;
  Request& request = slot.read.request;
  if (request.under_way()) slot.read.place.disk->wait(request);
  note_end(slot);
  for (Block& block : slot.blocks) {
    if (block) quota_.give_back(std::exchange(block, Block{}));
  }
  slot.unit = kNone;
}

// Requests the unit. False: there are not enough free blocks now.
bool FileSource::start(std::uint64_t unit) noexcept {
  Slot& slot = slot_of(unit);
  retire(slot);
  const std::uint64_t begin = unit * units_.bytes();
  std::size_t bytes = units_.bytes();
  if (const auto length = this->length()) {
    bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, *length - begin));
  }
  const std::size_t blocks = detail::units_for(bytes, units_.block_bytes());
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto taken = quota_.try_take();
    if (taken.error != 0) {
      while (i > 0) quota_.give_back(std::exchange(slot.blocks[--i], Block{}));
      return false;
    }
    slot.blocks[i] = taken.block;
  }

  slot.unit = unit;
  reads_.start(slot.read, units_.layout(),
               {.unit = unit,
                .unit_bytes = units_.bytes(),
                .begin = 0,
                .bytes = units_.layout().packed_bytes(unit, bytes)},
               std::span(slot.blocks).first(blocks), &slot.pieces);
  return true;
}

void FileSource::read_up_to(std::uint64_t last) noexcept {
  // A descriptor that cannot seek is read even where the reader has jumped over.
  if (!units_.layout().sequential()) next_unit_ = std::max(next_unit_, lowest_unit_);
  while (next_unit_ <= last) {
    const auto length = this->length();
    if (length && next_unit_ * units_.bytes() >= *length) return;
    if (!start(next_unit_)) return;
    if (next_unit_ < lowest_unit_) retire(slot_of(next_unit_));
    ++next_unit_;
  }
}

Source::Taken FileSource::take(std::uint64_t index, std::uint64_t floor) noexcept {
  const std::uint64_t unit = index / units_.group();
  const std::uint64_t lowest = floor / units_.group();
  while (lowest_unit_ < lowest) {
    // Slots repeat, so that a long jump passes each of them once.
    if (lowest - lowest_unit_ > slots_.size()) lowest_unit_ = lowest - slots_.size();
    Slot& slot = slot_of(lowest_unit_++);
    if (slot.unit < lowest) retire(slot);
  }
  read_up_to(unit + read_ahead_);
  Slot& slot = slot_of(unit);
  const auto length = this->length();
  if (slot.unit != unit) {
    if (length && index * units_.block_bytes() >= *length) return {};
    return {.block = {}, .bytes = 0, .status = {ENOMEM, "the system refuses memory for a block"}};
  }
  if (!reads_.await(slot.read, units_.cancelled())) {
    return {.block = {}, .bytes = 0, .status = {ECANCELED, "the stream was cancelled"}};
  }
  note_end(slot);
  const Request& request = slot.read.request;
  if (request.error != 0) return {.block = {}, .bytes = 0, .status = failed(slot, request.error)};
  const std::size_t within = (index % units_.group()) * units_.block_bytes();
  const int error = BlockTransfers::error_before(request, within + units_.block_bytes());
  if (error != 0 && !units_.layout().sequential()) {
    return {.block = {}, .bytes = 0, .status = failed(slot, error)};
  }
  const std::size_t there = std::min(request.bytes_done, request.wanted_bytes());
  if (there <= within) return {};
  std::size_t bytes = std::min(units_.block_bytes(), there - within);
  Block& block = slot.blocks[index % units_.group()];
  if (units_.group() == 1) {
    bytes = units_.layout().unpack(unit, pool().home(block), bytes);
    if (bytes == 0) return {.block = {}, .bytes = 0, .status = failed(slot, EBADMSG)};
    // Bytes behind the end of what is read may have come with the others.
    if (length) bytes = std::min<std::uint64_t>(bytes, *length - index * units_.block_bytes());
  }
  return {.block = std::exchange(block, Block{}), .bytes = bytes, .status = {}};
}

Status FileSource::failed(const Slot& slot, int error) noexcept {
  return reads_.failed(units_.layout(), slot.read.place,
                       slot.read.stopped_at(slot.unit * units_.bytes()), error);
}

}}  // namespace vortex::v0
