#include "io/file/held_reads.h"

#include <algorithm>

namespace vortex::inline v0 {
HeldReads::HeldReads(RequestUnits& units, std::size_t requests)
    : units_(units),
      block_bytes_(units.block_bytes()),
      length_(*units.layout().length()),
      reads_(units.pool(), units.caching()),
      slots_(requests),
      pieces_(group() > 1 ? requests : 0),
      seen_(static_cast<std::size_t>(blocks() / 64 + 1)) {
  free_.reserve(requests);
  for (std::size_t i = requests; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
}

void HeldReads::start(std::span<HeldBlock* const> blocks) noexcept {
  const std::uint32_t id = free_.back();
  free_.pop_back();
  Slot& slot = slots_[id];
  const std::uint64_t first = blocks.front()->index;
  const std::uint64_t begin = first * block_bytes_;
  const auto bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(blocks.size() * block_bytes_, length_ - begin));

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
  reread_bytes_.fetch_add(reread, std::memory_order_relaxed);
  std::array<Block, kMaxPieces> memory{};
  for (std::size_t i = 0; i < blocks.size(); ++i) memory[i] = blocks[i]->block;
  reads_.start(slot.read, units_.layout(),
               {.unit = first / group(),
                .unit_bytes = units_.bytes(),
                .begin = static_cast<std::size_t>(first % group()) * block_bytes_,
                .bytes = bytes},
               std::span(memory).first(blocks.size()), blocks.size() > 1 ? &pieces_[id] : nullptr);
}

void HeldReads::finish(Slot& slot) noexcept {
  const Request& request = slot.read.request;
  const std::size_t there = std::min(request.bytes_done, request.wanted_bytes());
  for (unsigned i = 0; i < slot.count; ++i) {
    HeldBlock& held = *slot.blocks[i];
    const std::size_t within = i * block_bytes_;
    held.state = HeldBlock::State::kReady;
    held.read = HeldBlock::kNone;
    held.bytes = there > within ? std::min(there - within, block_bytes_) : 0;
    held.error = BlockReads::error_before(request, within + block_bytes_);
  }
  slot.busy = false;
  free_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
}

void HeldReads::collect() noexcept {
  if (free_.size() == slots_.size()) return;
  for (Slot& slot : slots_) {
    if (slot.busy && !slot.read.request.under_way()) finish(slot);
  }
}

bool HeldReads::wait(Slot& slot) noexcept {
  if (!reads_.await(slot.read, units_.cancelled())) return false;
  finish(slot);
  return true;
}

bool HeldReads::settle(HeldBlock& held) noexcept {
  return held.state != HeldBlock::State::kReading || wait(slots_[held.read]);
}

bool HeldReads::settle_any() noexcept {
  const auto busy =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.busy; });
  return busy == slots_.end() || wait(*busy);
}

void HeldReads::drain() noexcept {
  for (Slot& slot : slots_) {
    if (!slot.busy) continue;
    slot.read.place.disk->wait(slot.read.request);
    finish(slot);
  }
}

Status HeldReads::failed(const HeldBlock& held) noexcept {
  const FileLayout::Place place = units_.layout().locate(held.index / group(), units_.bytes());
  const std::uint64_t begin =
      place.offset - place.file->begin() + held.index % group() * block_bytes_;
  return reads_.failed(units_.layout(), place, begin + held.bytes, held.error);
}

}  // namespace vortex::inline v0
