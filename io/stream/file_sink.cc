#include "io/stream/file_sink.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <span>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

std::size_t FileSink::blocks_needed(const FileSinkOptions& options, std::size_t block_bytes,
                                    std::size_t unit_bytes) {
  expect_block_count("a writer", "comeback_blocks", options.blocks_for_stream);
  expect_block_count("a writer", "write_behind", options.write_behind);
  // One group is being collected while `write_behind` others are written.
  const std::size_t group =
      RequestUnits::group(block_bytes, options.requests.request_bytes, unit_bytes);
  return detail::saturating_sum(
      options.blocks_for_stream + group - 1,
      detail::saturating_product(std::max<std::size_t>(options.write_behind, 1), group));
}

FileSink::FileSink(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                   const FileSinkOptions& options)
    : units_(pool, std::move(layout), options.requests, RequestUnits::Use::kWriting),
      blocks_for_stream_(options.blocks_for_stream),
      clear_blocks_(options.clear_blocks),
      sync_(options.sync),
      quota_(
          units_.quota(blocks_needed(options, pool.block_bytes(), units_.layout().unit_bytes()))),
      slots_(std::max<std::size_t>(options.write_behind, 1) + 1),
      writes_(Operation::kWrite, pool, options.requests.caching) {
  cleared_.reserve(quota_.minimum());
}

FileSink::~FileSink() {
  if (pool().inherited()) return;
  units_.layout().cancel();
  for (Slot& slot : slots_) {
    PlacedRequest& write = slot.write;
    if (write.request.under_way()) write.place.disk->wait(write.request);
    for (Block& block : slot.blocks) {
      if (block) quota_.give_back(std::exchange(block, Block{}));
    }
  }
  for (const Block block : cleared_) quota_.give_back(block);
}

// Deals with a request that has ended: its blocks are free again, unless it is given another place.
void FileSink::settle(Slot& slot) noexcept {
  const PlacedRequest& write = slot.write;
  const Request& request = write.request;
  if (request.error != 0) {
    if (units_.layout().move_elsewhere(slot.unit, units_.bytes(), request.error).disk != nullptr) {
      start(slot, true);
      return;
    }
    failed(write.place, write.stopped_at(slot.unit * units_.bytes() + slot.begin), request.error);
  }
  const bool cleared = request.clear_written && request.error == 0;
  for (unsigned i = 0; i < slot.count; ++i) {
    const Block block = std::exchange(slot.blocks[i], Block{});
    if (cleared) {
      cleared_.push_back(block);
    } else {
      quota_.give_back(block);
    }
  }
  slot.unit = kNone;
  slot.count = 0;
}

void FileSink::settle_ended() noexcept {
  for (Slot& slot : slots_) {
    if (&slot != collecting_ && slot.unit != kNone && !slot.write.request.under_way()) settle(slot);
  }
}

// False: nothing is under way, or the stream was cancelled.
bool FileSink::wait_for_oldest() noexcept {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (&slot == collecting_ || slot.unit == kNone) continue;
    if (oldest == nullptr || slot.number < oldest->number) oldest = &slot;
  }
  if (oldest == nullptr) return false;
  if (!writes_.await(oldest->write, units_.cancelled())) return false;
  settle_ended();
  return true;
}

FileSink::Slot* FileSink::free_slot() noexcept {
  for (;;) {
    for (Slot& slot : slots_) {
      if (slot.unit == kNone) return &slot;
    }
    if (!wait_for_oldest()) return nullptr;
  }
}

Sink::Taken FileSink::take(std::uint64_t) noexcept {
  settle_ended();
  for (;;) {
    if (!first_error_.ok()) return {.block = {}, .status = first_error_};
    if (!cleared_.empty()) {
      const Block block = cleared_.back();
      cleared_.pop_back();
      return {.block = block, .status = {}, .zeros = true};
    }
    const auto taken = quota_.try_take();
    if (taken.error == 0) return {.block = taken.block, .status = {}};
    if (taken.error != EAGAIN || !wait_for_oldest()) {
      const bool stopped = units_.cancelled().load(std::memory_order_acquire);
      return {.block = {},
              .status = stopped ? Status{ECANCELED, "the stream was cancelled"}
                                : Status{ENOMEM, "the system refuses memory for a block"}};
    }
  }
}

Status FileSink::complete(std::uint64_t index, Block block, std::size_t bytes) noexcept {
  const std::uint64_t unit = index / units_.group();
  Slot* slot = collecting_;
  if (slot == nullptr) {
    slot = free_slot();
    if (slot == nullptr || !first_error_.ok()) {
      quota_.give_back(block);
      return first_error_.ok() ? Status{ECANCELED, "the stream was cancelled"} : first_error_;
    }
    slot->unit = unit;
    slot->begin = (index % units_.group()) * units_.block_bytes();
    slot->bytes = 0;
    slot->count = 0;
    collecting_ = slot;
  }
  slot->blocks[slot->count++] = block;
  slot->bytes += bytes;
  if (bytes < units_.block_bytes() || (index + 1) % units_.group() == 0) return submit_collected();
  return first_error_;
}

Status FileSink::skip(std::uint64_t first, std::uint64_t count) noexcept {
  if (units_.layout().sequential()) {
    return {ESPIPE, "the writer jumped, and what it writes to cannot seek"};
  }
  const Status status = submit_collected();
  if (!status.ok() || count == 0) return status;
  // The last of them may have to share its unit with blocks that will be written.
  return assign_up_to((first + count - 1) / units_.group());
}

Status FileSink::assign_up_to(std::uint64_t unit) noexcept {
  for (; next_unit_ <= unit; ++next_unit_) {
    if (units_.layout().assign(next_unit_, units_.bytes()).disk == nullptr) {
      return failed({}, next_unit_ * units_.bytes(), ENOSPC);
    }
  }
  return {};
}

Status FileSink::submit_collected() noexcept {
  if (collecting_ == nullptr) return first_error_;
  Slot& slot = *std::exchange(collecting_, nullptr);
  slot.number = submitted_++;
  const Status status = assign_up_to(slot.unit);
  if (!status.ok()) {
    slot.write.request.error = 0;
    slot.write.request.clear_written = false;
    settle(slot);
    return status;
  }
  if (slot.count == 1 && slot.begin == 0) {
    slot.bytes = units_.layout().pack(slot.unit, pool().home(slot.blocks[0]), slot.bytes);
  }
  start(slot, false);
  return first_error_;
}

void FileSink::start(Slot& slot, bool again) noexcept {
  slot.write.request.clear_written = clear_blocks_;
  // Whole sectors are written, and the file is cut afterwards.
  writes_.start(slot.write, units_.layout(),
                {.unit = slot.unit,
                 .unit_bytes = units_.bytes(),
                 .begin = slot.begin,
                 .bytes = slot.bytes,
                 .again = again},
                std::span(slot.blocks).first(slot.count), &slot.pieces);
}

Status FileSink::finish(std::uint64_t length) noexcept {
  Status status = submit_collected();
  while (wait_for_oldest()) {
  }
  if (!first_error_.ok()) return first_error_;
  if (units_.cancelled().load(std::memory_order_acquire))
    return {ECANCELED, "the stream was cancelled"};
  try {
    units_.layout().finish(length, sync_);
  } catch (const std::exception& exception) {
    cause_ = {};
    cause_.text(message_of(exception));
    status = {errno_of(exception, EIO), cause_.c_str()};
  }
  return status;
}

Status FileSink::failed(const FileLayout::Place& place, std::uint64_t offset, int error) noexcept {
  if (first_error_.ok()) first_error_ = writes_.failed(units_.layout(), place, offset, error);
  return first_error_;
}

}}  // namespace vortex::v0
