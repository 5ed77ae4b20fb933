#include "io/array/held_transfers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr std::atomic<bool> kNever{false};

std::size_t words_for(std::uint64_t blocks) noexcept {
  return static_cast<std::size_t>(blocks / 64 + 1);
}

// A number for the bytes of a range: one word that changes always makes another, several changes
// do but for one case in 2^64. Nobody but a device may write there meanwhile; a race detector does
// not see what keeps the program from it.
[[gnu::no_sanitize_thread]] std::uint64_t content_sum(const std::byte* begin,
                                                      std::size_t bytes) noexcept {
  constexpr std::size_t kLanes = 8;  // as many as keep a multiplier busy
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  std::array<std::uint64_t, kLanes> sums{1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::uint64_t, kLanes> words{};
  const auto take_words = [&] {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] = (sums[lane] ^ words[lane]) * kFactor;
      sums[lane] ^= sums[lane] >> 32;
    }
  };
  std::size_t at = 0;
  for (; at + sizeof words <= bytes; at += sizeof words) {
    std::memcpy(words.data(), begin + at, sizeof words);
    take_words();
  }
  if (at < bytes) {
    // Byte by byte: a race detector is told of a copy whose length is not constant.
    words = {};
    for (std::size_t i = 0; at < bytes; ++at, ++i) {
      const auto byte =
          static_cast<std::uint64_t>(*static_cast<const volatile std::byte*>(begin + at));
      words[i / 8] |= byte << (i % 8 * 8);
    }
    take_words();
  }
  std::uint64_t sum = bytes;
  for (const std::uint64_t one : sums) {
    sum = (sum ^ one) * kFactor;
    sum ^= sum >> 32;
  }
  return sum;
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

void WriteBack::note_placed(HeldBlock& held) noexcept {
  held.writable = true;
  held.watched = false;
  if (held.dirty) return;
  held.dirty = true;
  held.dirty_since = clock_;
}

Status WriteBack::let_change(HeldBlock& held) noexcept {
  if (!transfers_.settle(held)) return {ECANCELED, "the stream was cancelled"};
  if (!held.writable) {
    const int error = units_.pool().set_rights(held.block, Rights::kReadWrite);
    if (error != 0) return {error, cannot_move_block(error)};
  }
  note_placed(held);
  return {};
}

int WriteBack::protect(HeldBlock& held) noexcept {
  if (units_.pool().lost(held.block)) return ENOMEM;
  if (!held.writable) return 0;
  const int error = units_.pool().set_rights(held.block, Rights::kRead);
  if (error == 0) held.writable = false;
  return error;
}

int WriteBack::start(HeldBlock& held) noexcept {
  if (const int error = protect(held)) return error;
  start_run(held, true);
  return 0;
}

std::uint64_t WriteBack::sum_of(const HeldBlock& held) const noexcept {
  return content_sum(units_.pool().where(held.block), transfers_.bytes_of(held.index));
}

void WriteBack::look_again(HeldBlock& held) noexcept {
  if (!held.watched || held.dirty || units_.pool().lost(held.block)) return;
  if (sum_of(held) == held.sum) return;
  held.dirty = true;
  held.dirty_since = clock_;
}

void WriteBack::look_again(std::uint64_t begin, std::uint64_t end) noexcept {
  held_.for_each([&](HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || held.index < begin || held.index >= end) return;
    look_again(held);
    if (held.watched && !held_.among_newest(held, kept_)) held.watched = false;
  });
}

void WriteBack::start_run(HeldBlock& held, bool protecting) noexcept {
  const std::uint64_t begin = held.index / units_.group() * units_.group();
  const std::uint64_t end = std::min(begin + units_.group(), transfers_.blocks());
  const auto goes_along = [&](std::uint64_t index) {
    HeldBlock* const other = held_.find(index);
    return other != nullptr && other->dirty && !other->under_way() &&
           !units_.pool().lost(other->block) && (!protecting || protect(*other) == 0);
  };
  std::uint64_t first = held.index;
  while (first > begin && goes_along(first - 1)) --first;
  std::uint64_t last = held.index + 1;
  while (last < end && goes_along(last)) ++last;
  std::array<HeldBlock*, kMaxPieces> run{};
  std::size_t count = 0;
  for (std::uint64_t index = first; index < last; ++index) {
    run[count] = held_.find(index);
    HeldBlock& one = *run[count++];
    one.written_last = clock_;
    one.watched = protecting && held_.among_newest(one, kept_);
    if (one.watched) one.sum = sum_of(one);
  }
  transfers_.start_writing({run.data(), count});
}

}}  // namespace vortex::v0
