#include "io/file/block_reads.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "vortex/os/steady_time.h"

namespace vortex::inline v0 {
BlockReads::BlockReads(FileLayout& layout, BlockPool& pool, std::size_t group, Caching caching,
                       std::size_t requests)
    : layout_(layout),
      pool_(pool),
      block_bytes_(pool.block_bytes()),
      group_(group),
      caching_(caching),
      length_(*layout.length()),
      slots_(requests),
      pieces_(group > 1 ? requests : 0),
      seen_(static_cast<std::size_t>(blocks() / 64 + 1)) {
  const FileLayout::Place first = layout_.locate(0, group_ * block_bytes_);
  if (caching_ != Caching::kBuffered && block_bytes_ % first.file->alignment() != 0) {
    throw Error(EINVAL, "'" + layout_.name() + "' is read directly in multiples of " +
                            format_bytes(first.file->alignment()) + ", and blocks of " +
                            format_bytes(block_bytes_) + " are none");
  }
  free_.reserve(requests);
  for (std::size_t i = requests; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
}

void BlockReads::start(std::span<HeldBlock* const> blocks) noexcept {
  const std::uint32_t id = free_.back();
  free_.pop_back();
  Slot& slot = slots_[id];
  const std::uint64_t first = blocks.front()->index;
  const std::uint64_t begin = first * block_bytes_;
  const auto bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(blocks.size() * block_bytes_, length_ - begin));

  FileLayout::Place place = layout_.locate(first / group_, group_ * block_bytes_);
  place.offset += first % group_ * block_bytes_;
  const BlockFile& file = *place.file;
  bool direct = file.direct_descriptor() >= 0 && caching_ != Caching::kBuffered;
  if (direct && caching_ == Caching::kAuto) {
    direct = !page_cache_.worth_reading_through(file.descriptor(), place.offset, bytes);
  }
  Request& request = slot.request;
  request.set_memory(pool_.home(blocks.front()->block), block_bytes_);
  if (blocks.size() > 1) {
    request.pieces = &pieces_[id];
    request.piece_count = static_cast<unsigned>(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      request.pieces->begins[i] = pool_.home(blocks[i]->block);
    }
  }
  aim(request, Operation::kRead, place, bytes, direct);

  slot.disk = place.disk;
  slot.busy = true;
  slot.count = static_cast<unsigned>(blocks.size());
  std::copy(blocks.begin(), blocks.end(), slot.blocks.begin());
  std::size_t reread = 0;
  for (HeldBlock* held : blocks) {
    held->state = HeldBlock::State::kReading;
    held->read = id;
    if (was_read_before(held->index)) {
      reread += static_cast<std::size_t>(
          std::min<std::uint64_t>(block_bytes_, length_ - held->index * block_bytes_));
    }
    seen_[held->index / 64] |= std::uint64_t{1} << (held->index % 64);
  }
  counters_.count_request(bytes, !direct);
  reread_bytes_.fetch_add(reread, std::memory_order_relaxed);
  place.disk->submit(request);
}

void BlockReads::finish(Slot& slot) noexcept {
  const Request& request = slot.request;
  const std::size_t wanted = request.wanted_bytes();
  const std::size_t there = std::min(request.bytes_done, wanted);
  for (unsigned i = 0; i < slot.count; ++i) {
    HeldBlock& held = *slot.blocks[i];
    const std::size_t within = i * block_bytes_;
    const std::size_t end = std::min(wanted, within + block_bytes_);
    held.state = HeldBlock::State::kReady;
    held.read = HeldBlock::kNone;
    held.bytes = there > within ? std::min(there, end) - within : 0;
    held.error = there >= end ? 0 : request.error != 0 ? request.error : ENODATA;
  }
  slot.busy = false;
  free_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
}

void BlockReads::collect() noexcept {
  if (free_.size() == slots_.size()) return;
  for (Slot& slot : slots_) {
    if (slot.busy && !slot.request.under_way()) finish(slot);
  }
}

bool BlockReads::wait(Slot& slot) noexcept {
  if (slot.request.under_way()) {
    const std::uint64_t begin = steady_now_ns();
    const bool ended = slot.disk->wait(slot.request, &stopped_);
    counters_.count_wait(steady_now_ns() - begin);
    if (!ended) return false;
  }
  finish(slot);
  return true;
}

bool BlockReads::settle(HeldBlock& held) noexcept {
  return held.state != HeldBlock::State::kReading || wait(slots_[held.read]);
}

bool BlockReads::settle_any() noexcept {
  const auto busy =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.busy; });
  return busy == slots_.end() || wait(*busy);
}

void BlockReads::drain() noexcept {
  for (Slot& slot : slots_) {
    if (!slot.busy) continue;
    slot.disk->wait(slot.request);
    finish(slot);
  }
}

Status BlockReads::failed(const HeldBlock& held) noexcept {
  cause_ = {};
  const std::uint64_t offset = held.index * block_bytes_ + held.bytes;
  if (held.error == ENODATA) {
    cause_.text("'").text(layout_.name()).text("' ends at byte ").number(offset);
    cause_.text(" and was ").number(length_).text(" long when it was opened");
  } else {
    cause_.text("reading '").text(layout_.name()).text("' at byte ").number(offset);
  }
  return {held.error, cause_.c_str()};
}

void BlockReads::cancel() noexcept {
  stopped_.store(true, std::memory_order_release);
  layout_.cancel();
  for (Disk* disk : layout_.disks()) disk->interrupt();
}

}  // namespace vortex::inline v0
