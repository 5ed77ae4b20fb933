#include "io/file/file_source.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vortex/error.h"
#include "vortex/os/steady_time.h"

namespace vortex::inline v0 {
namespace {

// From here on larger requests gain nothing on the disks we know.
constexpr std::size_t kMinRequestBytes = std::size_t{512} << 10;

}  // namespace

Grouping::Grouping(std::size_t block_bytes, std::size_t request_bytes, std::size_t unit_bytes) {
  const std::size_t wanted = request_bytes != 0 ? request_bytes : kMinRequestBytes;
  blocks = std::clamp<std::size_t>(wanted / block_bytes, 1, kMaxPieces);
  if (unit_bytes == 0) return;
  if (unit_bytes % block_bytes != 0 || unit_bytes / block_bytes > kMaxPieces) {
    throw Error(EINVAL, "blocks of " + format_bytes(block_bytes) + " cannot hold stripe units of " +
                            format_bytes(unit_bytes) + ": a unit must be 1 to " +
                            std::to_string(kMaxPieces) + " blocks");
  }
  blocks = unit_bytes / block_bytes;
}

std::size_t FileSource::blocks_needed(const FileSourceOptions& options, std::size_t block_bytes,
                                      std::size_t unit_bytes) {
  // The window may begin and end in the middle of a group.
  const std::size_t group = Grouping(block_bytes, options.request_bytes, unit_bytes).blocks;
  return options.blocks_for_stream + 2 * (group - 1) + options.read_ahead * group;
}

FileSource::FileSource(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                       const FileSourceOptions& options)
    : layout_(std::move(layout)),
      block_bytes_(pool.block_bytes()),
      group_(Grouping(block_bytes_, options.request_bytes, layout_->unit_bytes()).blocks),
      unit_bytes_(group_ * block_bytes_),
      read_ahead_(options.read_ahead),
      blocks_for_stream_(options.blocks_for_stream),
      caching_(options.caching),
      registered_(options.register_pool),
      quota_(pool, blocks_needed(options, block_bytes_, layout_->unit_bytes()),
             blocks_needed(options, block_bytes_, layout_->unit_bytes()),
             "reader of '" + layout_->name() + "'"),
      slots_((blocks_for_stream_ + group_ - 1) / group_ + read_ahead_ + 2),
      length_(layout_->length().value_or(kNone)) {
  const FileLayout::Place first = layout_->locate(0, unit_bytes_);
  if (caching_ != Caching::kBuffered && block_bytes_ % first.file->alignment() != 0) {
    throw Error(EINVAL, "'" + layout_->name() + "' is read directly in multiples of " +
                            format_bytes(first.file->alignment()) + ", and blocks of " +
                            format_bytes(block_bytes_) + " are none");
  }
  if (caching_ == Caching::kBuffered && !layout_->sequential()) {
    posix_fadvise(first.file->descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  if (registered_) {
    for (Disk* disk : layout_->disks()) {
      disk->register_memory(pool.homes(), pool.pool_bytes(), block_bytes_);
    }
  }
}

FileSource::~FileSource() {
  if (pool().inherited()) return;
  layout_->cancel();
  for (Slot& slot : slots_) retire(slot);
  if (registered_) {
    for (Disk* disk : layout_->disks()) disk->unregister_memory(pool().homes());
  }
}

std::optional<std::uint64_t> FileSource::length() const noexcept {
  const std::uint64_t length = length_.load(std::memory_order_acquire);
  if (length == kNone) return std::nullopt;
  return length;
}

void FileSource::release(std::uint64_t, Block block) noexcept { quota_.give_back(block); }

void FileSource::cancel() noexcept {
  stopped_.store(true, std::memory_order_release);
  layout_->cancel();
  for (Disk* disk : layout_->disks()) disk->interrupt();
}

// Waits until the request of the slot has ended. False: stopped.
bool FileSource::settle(Slot& slot) noexcept {
  if (slot.request.under_way() && !slot.disk->wait(slot.request, &stopped_)) return false;
  note_end(slot);
  return true;
}

// Where the length is not known, the first request that came back short tells it; those behind it
// had nothing to read. It need not be the one that a reader who jumps looks at first.
void FileSource::note_end(const Slot& slot) noexcept {
  if (length_.load(std::memory_order_relaxed) != kNone) return;
  for (std::uint64_t unit = std::min(lowest_unit_, slot.unit); unit <= slot.unit; ++unit) {
    const Slot& earlier = slot_of(unit);
    const Request& request = earlier.request;
    if (earlier.unit != unit || request.under_way() || request.error != 0) continue;
    if (request.bytes_done == request.bytes) continue;
    length_.store(unit * unit_bytes_ + request.bytes_done, std::memory_order_release);
    return;
  }
}

// Gives the blocks of the slot back, once nobody writes into them any more.
void FileSource::retire(Slot& slot) noexcept {
  if (slot.unit == kNone) return;
  if (slot.request.under_way()) slot.disk->wait(slot.request);
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
  const std::uint64_t begin = unit * unit_bytes_;
  std::size_t bytes = unit_bytes_;
  if (const auto length = this->length()) {
    bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, *length - begin));
  }
  const auto blocks = static_cast<unsigned>((bytes + block_bytes_ - 1) / block_bytes_);
  for (unsigned i = 0; i < blocks; ++i) {
    const auto taken = quota_.try_take();
    if (taken.error != 0) {
      while (i > 0) quota_.give_back(std::exchange(slot.blocks[--i], Block{}));
      return false;
    }
    slot.blocks[i] = taken.block;
  }

  const FileLayout::Place place = layout_->locate(unit, unit_bytes_);
  const BlockFile& file = *place.file;
  Request& request = slot.request;
  bool direct = file.direct_descriptor() >= 0 && caching_ != Caching::kBuffered;
  if (direct && caching_ == Caching::kAuto) {
    direct = !page_cache_.worth_reading_through(file.descriptor(), place.offset, bytes);
  }
  aim(request, Operation::kRead, place, bytes, direct);
  if (layout_->sequential()) request.least_bytes = 0;
  request.piece_bytes = block_bytes_;
  request.piece_count = blocks;
  request.pieces = &slot.pieces;
  for (unsigned i = 0; i < blocks; ++i) slot.pieces.begins[i] = pool().home(slot.blocks[i]);
  slot.unit = unit;
  slot.disk = place.disk;
  counters_.count_request(bytes, !direct);
  place.disk->submit(request);
  return true;
}

void FileSource::read_up_to(std::uint64_t last) noexcept {
  // A descriptor that cannot seek is read even where the reader has jumped over.
  if (!layout_->sequential()) next_unit_ = std::max(next_unit_, lowest_unit_);
  while (next_unit_ <= last) {
    const auto length = this->length();
    if (length && next_unit_ * unit_bytes_ >= *length) return;
    if (!start(next_unit_)) return;
    if (next_unit_ < lowest_unit_) retire(slot_of(next_unit_));
    ++next_unit_;
  }
}

Source::Taken FileSource::take(std::uint64_t index, std::uint64_t floor) noexcept {
  const std::uint64_t unit = index / group_;
  const std::uint64_t lowest = floor / group_;
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
    if (length && index * block_bytes_ >= *length) return {};
    return {.block = {}, .bytes = 0, .status = {ENOMEM, "the system refuses memory for a block"}};
  }
  if (slot.request.under_way()) {
    const std::uint64_t begin = steady_now_ns();
    const bool ended = settle(slot);
    counters_.count_wait(steady_now_ns() - begin);
    if (!ended) return {.block = {}, .bytes = 0, .status = {ECANCELED, "the stream was cancelled"}};
  } else {
    note_end(slot);
  }
  if (slot.request.error != 0) {
    return {.block = {}, .bytes = 0, .status = failed(slot, slot.request.error)};
  }
  const std::size_t within = (index % group_) * block_bytes_;
  const std::size_t wanted = slot.request.wanted_bytes();
  const std::size_t there = std::min(slot.request.bytes_done, wanted);
  if (there < std::min(wanted, within + block_bytes_) && !layout_->sequential()) {
    return {.block = {}, .bytes = 0, .status = failed(slot, ENODATA)};
  }
  if (there <= within) return {};
  Block& block = slot.blocks[index % group_];
  return {.block = std::exchange(block, Block{}),
          .bytes = std::min(block_bytes_, there - within),
          .status = {}};
}

Status FileSource::failed(const Slot& slot, int error) noexcept {
  cause_ = {};
  const std::uint64_t offset = slot.unit * unit_bytes_ + slot.request.bytes_done;
  if (error == ENODATA) {
    cause_.text("'").text(layout_->name()).text("' ends at byte ").number(offset);
    cause_.text(" and was ").number(length().value_or(0)).text(" long when it was opened");
  } else {
    cause_.text("reading '").text(layout_->name()).text("' at byte ").number(offset);
  }
  return {error, cause_.c_str()};
}

}  // namespace vortex::inline v0
