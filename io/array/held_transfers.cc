#include "io/array/held_transfers.h"

#include <algorithm>
#include <cerrno>

namespace vortex { inline namespace v0 {

namespace {

constexpr std::atomic<bool> kNever{false};

std::size_t words_for(std::uint64_t blocks) noexcept {
  return static_cast<std::size_t>(blocks / 64 + 1);
}

}  // namespace

HeldTransfers::HeldTransfers(RequestUnits& units, std::size_t requests)
    : units_(units),
      block_bytes_(units.block_bytes()),
      length_(*units.layout().length()),
      reads_(Operation::kRead, units.pool(), units.caching()),
      writes_(Operation::kWrite, units.pool(), units.caching()),
      slots_(requests),
      pieces_(group() > 1 ? requests : 0),
      seen_(words_for(blocks())) {
  free_.reserve(requests);
  for (std::size_t i = requests; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
}

std::size_t HeldTransfers::bytes_of(std::uint64_t index) const noexcept {
  const std::uint64_t begin = index * block_bytes_;
  return begin >= length()
             ? 0
             : static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes_, length() - begin));
}

std::size_t HeldTransfers::begin_in_unit(std::uint64_t index) const noexcept {
  return static_cast<std::size_t>(index % group()) * block_bytes_;
}

void HeldTransfers::resize(std::uint64_t length) {
  const std::uint64_t before = blocks();
  seen_.resize(std::max(seen_.size(), words_for(detail::units_for(length, block_bytes_))));
  length_.store(length, std::memory_order_relaxed);
  // A part that is cut off and grows again later is read for the first time then.
  for (std::uint64_t index = blocks(); index < before; ++index) {
    seen_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
  }
}

void HeldTransfers::start(BlockTransfers& transfers, std::span<HeldBlock* const> blocks,
                          bool as_placed) noexcept {
  const std::uint32_t id = free_.back();
  free_.pop_back();
  Slot& slot = slots_[id];
  slot.busy = true;
  slot.count = static_cast<unsigned>(blocks.size());
  std::copy(blocks.begin(), blocks.end(), slot.blocks.begin());
  std::array<Block, kMaxPieces> memory{};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i]->request = id;
    memory[i] = blocks[i]->block;
  }
  const std::uint64_t first = blocks.front()->index;
  transfers.start(slot.transfer, units_.layout(),
                  {.unit = first / group(),
                   .unit_bytes = units_.bytes(),
                   .begin = begin_in_unit(first),
                   .bytes = (blocks.size() - 1) * block_bytes_ + bytes_of(blocks.back()->index),
                   .as_placed = as_placed},
                  std::span(memory).first(blocks.size()),
                  blocks.size() > 1 ? &pieces_[id] : nullptr);
}

void HeldTransfers::start_reading(std::span<HeldBlock* const> blocks) noexcept {
  std::size_t reread = 0;
  for (HeldBlock* const held : blocks) {
    held->state = HeldBlock::State::kReading;
    if (was_read_before(held->index)) reread += bytes_of(held->index);
    seen_[held->index / 64] |= std::uint64_t{1} << (held->index % 64);
  }
  reread_bytes_.fetch_add(reread, std::memory_order_relaxed);
  start(reads_, blocks, false);
}

void HeldTransfers::start_writing(std::span<HeldBlock* const> blocks) noexcept {
  for (HeldBlock* const held : blocks) {
    held->dirty = false;
    held->written_since = held->dirty_since;
    held->write_error = 0;
  }
  // More than the file has must not be written: it would be longer for a moment.
  start(writes_, blocks, true);
}

void HeldTransfers::finish(Slot& slot) noexcept {
  const Request& request = slot.transfer.request;
  const std::size_t wanted = request.wanted_bytes();
  const std::size_t there = std::min(request.bytes_done, wanted);
  for (unsigned i = 0; i < slot.count; ++i) {
    HeldBlock& held = *slot.blocks[i];
    const std::size_t within = i * block_bytes_;
    held.request = HeldBlock::kNone;
    if (request.operation == Operation::kRead) {
      held.state = HeldBlock::State::kReady;
      held.bytes = there > within ? std::min(there - within, block_bytes_) : 0;
      held.error = BlockTransfers::error_before(request, within + block_bytes_);
    } else if (there < std::min(wanted, within + block_bytes_)) {
      held.dirty = true;
      held.dirty_since = std::min(held.dirty_since, held.written_since);
      held.write_error = request.error != 0 ? request.error : EIO;
    }
  }
  slot.busy = false;
  free_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
}

void HeldTransfers::collect() noexcept {
  if (!busy()) return;
  for (Slot& slot : slots_) {
    if (slot.busy && !slot.transfer.request.under_way()) finish(slot);
  }
}

bool HeldTransfers::wait(Slot& slot, const std::atomic<bool>& stop) noexcept {
  const bool reads = slot.transfer.request.operation == Operation::kRead;
  if (!(reads ? reads_ : writes_).await(slot.transfer, stop)) return false;
  finish(slot);
  return true;
}

bool HeldTransfers::settle(HeldBlock& held) noexcept {
  return !held.under_way() || wait(slots_[held.request], units_.cancelled());
}

bool HeldTransfers::settle_any() noexcept {
  const auto busy =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.busy; });
  return busy == slots_.end() || wait(*busy, units_.cancelled());
}

void HeldTransfers::drain(HeldBlock& held) noexcept {
  if (held.under_way()) wait(slots_[held.request], kNever);
}

void HeldTransfers::drain() noexcept {
  for (Slot& slot : slots_) {
    if (slot.busy) wait(slot, kNever);
  }
}

Status HeldTransfers::failed(BlockTransfers& transfers, const HeldBlock& held, std::size_t done,
                             int error) noexcept {
  const FileLayout::Place unit = units_.layout().locate(held.index / group(), units_.bytes());
  const std::uint64_t begin = unit.offset - unit.file->begin() + begin_in_unit(held.index);
  return transfers.failed(units_.layout(), unit, begin + done, error);
}

}}  // namespace vortex::v0
