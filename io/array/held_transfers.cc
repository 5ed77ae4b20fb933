#include "io/array/held_transfers.h"

#include <algorithm>
#include <cerrno>

#include "vortex/thread/activity.h"

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
      reads_(units.pool(), units.caching()),
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

std::size_t HeldTransfers::bytes_of(std::span<HeldBlock* const> blocks) const noexcept {
  return (blocks.size() - 1) * block_bytes_ + bytes_of(blocks.back()->index);
}

std::size_t HeldTransfers::begin_in_unit(std::uint64_t index) const noexcept {
  return static_cast<std::size_t>(index % group()) * block_bytes_;
}

FileLayout::Place HeldTransfers::unit_of(std::uint64_t index) noexcept {
  return units_.layout().locate(index / group(), units_.bytes());
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

std::uint32_t HeldTransfers::take_slot(std::span<HeldBlock* const> blocks) noexcept {
  const std::uint32_t id = free_.back();
  free_.pop_back();
  Slot& slot = slots_[id];
  slot.busy = true;
  slot.count = static_cast<unsigned>(blocks.size());
  std::copy(blocks.begin(), blocks.end(), slot.blocks.begin());
  for (HeldBlock* held : blocks) held->request = id;
  return id;
}

void HeldTransfers::start_reading(std::span<HeldBlock* const> blocks) noexcept {
  const std::uint32_t id = take_slot(blocks);
  std::size_t reread = 0;
  std::array<Block, kMaxPieces> memory{};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    HeldBlock& held = *blocks[i];
    held.state = HeldBlock::State::kReading;
    memory[i] = held.block;
    if (was_read_before(held.index)) reread += bytes_of(held.index);
    seen_[held.index / 64] |= std::uint64_t{1} << (held.index % 64);
  }
  reread_bytes_.fetch_add(reread, std::memory_order_relaxed);
  const std::uint64_t first = blocks.front()->index;
  reads_.start(slots_[id].transfer, units_.layout(),
               {.unit = first / group(),
                .unit_bytes = units_.bytes(),
                .begin = begin_in_unit(first),
                .bytes = bytes_of(blocks)},
               std::span(memory).first(blocks.size()), blocks.size() > 1 ? &pieces_[id] : nullptr);
}

void HeldTransfers::start_writing(std::span<HeldBlock* const> blocks) noexcept {
  const std::uint32_t id = take_slot(blocks);
  PlacedRequest& write = slots_[id].transfer;
  const BlockPool& pool = units_.pool();
  write.request.set_memory(pool.where(blocks.front()->block), block_bytes_);
  if (blocks.size() > 1) {
    write.request.pieces = &pieces_[id];
    write.request.piece_count = static_cast<unsigned>(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      write.request.pieces->begins[i] = pool.where(blocks[i]->block);
    }
  }
  for (HeldBlock* held : blocks) {
    held->dirty = false;
    held->written_since = held->dirty_since;
    held->write_error = 0;
  }
  const std::uint64_t first = blocks.front()->index;
  const std::size_t bytes = bytes_of(blocks);
  const FileLayout::Place unit = unit_of(first);
  // More than the file has must not be written: it would be longer for a moment.
  const bool direct = units_.caching() != Caching::kBuffered && bytes % unit.file->alignment() == 0;
  write.aim(Operation::kWrite, unit, begin_in_unit(first), bytes, direct);
  writes_.count_request(bytes, !direct);
  unit.disk->submit(write.request);
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
      held.error = BlockReads::error_before(request, within + block_bytes_);
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
  PlacedRequest& transfer = slot.transfer;
  if (transfer.request.operation == Operation::kRead) {
    if (!reads_.await(transfer, stop)) return false;
  } else if (transfer.request.under_way()) {
    const std::uint64_t begin = steady_now_ns();
    const bool ended = transfer.place.disk->wait(transfer.request, &stop);
    writes_.count_wait(steady_now_ns() - begin);
    if (!ended) return false;
  }
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

Status HeldTransfers::failed_reading(const HeldBlock& held) noexcept {
  const FileLayout::Place unit = unit_of(held.index);
  const std::uint64_t begin = unit.offset - unit.file->begin() + begin_in_unit(held.index);
  return reads_.failed(units_.layout(), unit, begin + held.bytes, held.error);
}

Status HeldTransfers::failed_writing(const HeldBlock& held) noexcept {
  cause_ = {};
  cause_.text("writing ");
  units_.layout().describe(unit_of(held.index), cause_);
  cause_.text(" at byte ").number(held.index * block_bytes_);
  return {held.write_error, cause_.c_str()};
}

}}  // namespace vortex::v0
