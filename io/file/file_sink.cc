#include "io/file/file_sink.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/steady_time.h"

namespace vortex::inline v0 {
namespace {

void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

std::size_t FileSink::blocks_needed(const FileSinkOptions& options, std::size_t block_bytes,
                                    std::size_t unit_bytes) {
  // One group is being collected while `write_behind` others are written.
  const std::size_t group = Grouping(block_bytes, options.request_bytes, unit_bytes).blocks;
  return options.blocks_for_stream + group - 1 +
         std::max<std::size_t>(options.write_behind, 1) * group;
}

FileSink::FileSink(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                   const FileSinkOptions& options)
    : layout_(std::move(layout)),
      block_bytes_(pool.block_bytes()),
      group_(Grouping(block_bytes_, options.request_bytes, layout_->unit_bytes()).blocks),
      unit_bytes_(group_ * block_bytes_),
      blocks_for_stream_(options.blocks_for_stream),
      caching_(options.caching),
      registered_(options.register_pool),
      clear_blocks_(options.clear_blocks),
      sync_(options.sync),
      quota_(pool, blocks_needed(options, block_bytes_, layout_->unit_bytes()),
             blocks_needed(options, block_bytes_, layout_->unit_bytes()),
             "writer of '" + layout_->name() + "'"),
      slots_(std::max<std::size_t>(options.write_behind, 1) + 1) {
  cleared_.reserve(blocks_needed(options, block_bytes_, layout_->unit_bytes()));
  const FileLayout::Place first = layout_->locate(0, unit_bytes_);
  if (caching_ != Caching::kBuffered && block_bytes_ % first.file->alignment() != 0) {
    throw Error(EINVAL, "'" + layout_->name() + "' is written directly in multiples of " +
                            format_bytes(first.file->alignment()) + ", and blocks of " +
                            format_bytes(block_bytes_) + " are none");
  }
  if (registered_) {
    for (Disk* disk : layout_->disks()) {
      disk->register_memory(pool.homes(), pool.pool_bytes(), block_bytes_);
    }
  }
}

FileSink::~FileSink() {
  if (pool().inherited()) return;
  layout_->cancel();
  for (Slot& slot : slots_) {
    if (slot.request.under_way()) slot.disk->wait(slot.request);
    for (Block& block : slot.blocks) {
      if (block) quota_.give_back(std::exchange(block, Block{}));
    }
  }
  for (const Block block : cleared_) quota_.give_back(block);
  if (registered_) {
    for (Disk* disk : layout_->disks()) disk->unregister_memory(pool().homes());
  }
}

void FileSink::discard(Block block) noexcept { quota_.give_back(block); }

void FileSink::cancel() noexcept {
  stopped_.store(true, std::memory_order_release);
  layout_->cancel();
  for (Disk* disk : layout_->disks()) disk->interrupt();
}

// Deals with a request that has ended: its blocks are free again, unless it is given another place.
void FileSink::settle(Slot& slot) noexcept {
  Request& request = slot.request;
  if (request.error != 0) {
    const FileLayout::Place other = layout_->move_elsewhere(slot.unit, unit_bytes_, request.error);
    if (other.disk != nullptr) {
      place(slot, other);
      return;
    }
    const std::uint64_t begin = layout_->sequential() ? slot.unit * unit_bytes_ + slot.begin
                                                      : request.offset - slot.file->begin();
    failed({slot.disk, slot.file, 0}, begin + request.bytes_done, request.error);
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
    if (&slot != collecting_ && slot.unit != kNone && !slot.request.under_way()) settle(slot);
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
  if (!oldest->request.under_way()) {
    settle(*oldest);
    return true;
  }
  const std::uint64_t begin = steady_now_ns();
  const bool ended = oldest->disk->wait(oldest->request, &stopped_);
  count(waits_);
  count(waited_ns_, steady_now_ns() - begin);
  if (ended) settle_ended();
  return ended;
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
      const bool stopped = stopped_.load(std::memory_order_acquire);
      return {.block = {},
              .status = stopped ? Status{ECANCELED, "the stream was cancelled"}
                                : Status{ENOMEM, "the system refuses memory for a block"}};
    }
  }
}

Status FileSink::complete(std::uint64_t index, Block block, std::size_t bytes) noexcept {
  const std::uint64_t unit = index / group_;
  Slot* slot = collecting_;
  if (slot == nullptr) {
    slot = free_slot();
    if (slot == nullptr || !first_error_.ok()) {
      quota_.give_back(block);
      return first_error_.ok() ? Status{ECANCELED, "the stream was cancelled"} : first_error_;
    }
    slot->unit = unit;
    slot->begin = (index % group_) * block_bytes_;
    slot->bytes = 0;
    slot->count = 0;
    collecting_ = slot;
  }
  slot->blocks[slot->count++] = block;
  slot->bytes += bytes;
  if (bytes < block_bytes_ || (index + 1) % group_ == 0) return submit_collected();
  return first_error_;
}

Status FileSink::skip(std::uint64_t first, std::uint64_t count) noexcept {
  if (layout_->sequential()) {
    return {ESPIPE, "the writer jumped, and what it writes to cannot seek"};
  }
  const Status status = submit_collected();
  if (!status.ok() || count == 0) return status;
  // The last of them may have to share its unit with blocks that will be written.
  return assign_up_to((first + count - 1) / group_);
}

Status FileSink::assign_up_to(std::uint64_t unit) noexcept {
  for (; next_unit_ <= unit; ++next_unit_) {
    if (layout_->assign(next_unit_, unit_bytes_).disk == nullptr) {
      return failed({}, next_unit_ * unit_bytes_, ENOSPC);
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
    slot.request.error = 0;
    slot.request.clear_written = false;
    settle(slot);
    return status;
  }
  count(requests_);
  count(bytes_, slot.bytes);
  place(slot, layout_->locate(slot.unit, unit_bytes_));
  return first_error_;
}

void FileSink::place(Slot& slot, const FileLayout::Place& place) noexcept {
  Request& request = slot.request;
  FileLayout::Place at = place;
  if (!layout_->sequential()) at.offset += slot.begin;
  aim(request, Operation::kWrite, at, slot.bytes, caching_ != Caching::kBuffered);
  request.piece_bytes = block_bytes_;
  request.piece_count = slot.count;
  request.pieces = &slot.pieces;
  request.clear_written = clear_blocks_;
  for (unsigned i = 0; i < slot.count; ++i) slot.pieces.begins[i] = pool().home(slot.blocks[i]);
  // Whole sectors are written and the file is cut afterwards; the rest of the last block may hold
  // anything, and must not be seen meanwhile.
  const std::size_t used = slot.bytes - (slot.count - 1) * block_bytes_;
  const std::size_t beyond = request.bytes - slot.bytes;
  if (beyond > 0) std::memset(slot.pieces.begins[slot.count - 1] + used, 0, beyond);
  slot.disk = place.disk;
  slot.file = place.file;
  place.disk->submit(request);
}

Status FileSink::finish(std::uint64_t length) noexcept {
  Status status = submit_collected();
  while (wait_for_oldest()) {
  }
  if (!first_error_.ok()) return first_error_;
  if (stopped_.load(std::memory_order_acquire)) return {ECANCELED, "the stream was cancelled"};
  try {
    layout_->finish(length, sync_);
  } catch (const std::exception& exception) {
    cause_ = {};
    cause_.text(message_of(exception));
    status = {errno_of(exception, EIO), cause_.c_str()};
  }
  return status;
}

Status FileSink::failed(const FileLayout::Place& place, std::uint64_t offset, int error) noexcept {
  if (first_error_.ok()) {
    cause_ = {};
    cause_.text("writing ");
    if (place.file != nullptr) {
      layout_->describe(place, cause_);
    } else {
      cause_.text("'").text(layout_->name()).text("'");
    }
    cause_.text(" at byte ").number(offset);
    if (const char* const way_out = layout_->way_out(error)) cause_.text("; ").text(way_out);
    first_error_ = {error, cause_.c_str()};
  }
  return first_error_;
}

FileSinkStatistics FileSink::statistics() const noexcept {
  FileSinkStatistics result;
  result.requests = requests_.load(std::memory_order_relaxed);
  result.bytes = bytes_.load(std::memory_order_relaxed);
  result.waits = waits_.load(std::memory_order_relaxed);
  result.waited_ns = waited_ns_.load(std::memory_order_relaxed);
  return result;
}

}  // namespace vortex::inline v0
