// The part of AnyOrderStream that writes: how what was changed gets into the file.
#include "io/array/any_order_stream.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "vortex/error.h"
#include "vortex/fault/diagnostics.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

void AnyOrderStream::write_behind() noexcept {
  if (held_.ordered() <= kept_) return;
  std::size_t left = std::min(written_behind_, held_.ordered() - kept_);
  for (HeldBlock* held = held_.oldest(); left > 0; held = held_.next(*held), --left) {
    if (!held->dirty || held->under_way() || held->write_error != 0) continue;
    if (unit_in_use(held->index)) continue;
    if (!transfers_.has_room() || changes_->start(*held) != 0) return;
  }
}

// One of the last W lies in the unit, or a walk stands there.
bool AnyOrderStream::unit_in_use(std::uint64_t index) noexcept {
  const std::uint64_t begin = index / units_.group() * units_.group();
  const std::uint64_t end = begin + units_.group();
  if (just_left_ >= begin && just_left_ < end) return true;
  HeldBlock* held = held_.newest();
  for (std::size_t i = 0; i < kept_ && held != nullptr; ++i, held = held_.previous(*held)) {
    if (held->index >= begin && held->index < end) return true;
  }
  return cursors_.has_head_in(begin, end);
}

// Waits until the block has been written.
bool AnyOrderStream::write_now(HeldBlock& held) noexcept {
  if (!transfers_.settle(held)) return false;
  if (!held.dirty) return true;
  if (!transfers_.has_room() && !transfers_.settle_any()) return false;
  if (const int error = changes_->start(held)) {
    write_failure_ = {error, cannot_move_block(error)};
    return false;
  }
  if (!transfers_.settle(held)) return false;
  if (held.dirty) write_failure_ = transfers_.failed_writing(held);
  return !held.dirty;
}

void AnyOrderStream::write_changes(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  std::uint64_t since = 0;
  std::vector<std::uint64_t> blocks;
  {
    ServiceLock lock(*this);
    const std::uint64_t last = offset + std::min(bytes - 1, ~offset);
    changes_->look_again(offset / block_bytes_, last / block_bytes_ + 1);
    since = changes_->now();
    blocks = dirty_blocks(offset / block_bytes_, last / block_bytes_ + 1);
  }
  // Faults of other threads are served in between.
  std::optional<Error> first;
  const auto note = [&](auto step, std::uint64_t index) {
    try {
      ServiceLock lock(*this);
      (this->*step)(index, since);
    } catch (const Error& error) {
      if (!first) first = error;
    }
  };
  for (const std::uint64_t index : blocks) note(&AnyOrderStream::start_changed, index);
  for (const std::uint64_t index : blocks) note(&AnyOrderStream::await_changed, index);
  if (first) throw *first;
}

// The blocks of [begin, end) that are dirty or being written, in order.
std::vector<std::uint64_t> AnyOrderStream::dirty_blocks(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> result;
  held_.for_each([&](const HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || held.state == HeldBlock::State::kReading) return;
    if (held.index < begin || held.index >= end) return;
    if (held.dirty || held.under_way()) result.push_back(held.index);
  });
  std::sort(result.begin(), result.end());
  return result;
}

void AnyOrderStream::start_changed(std::uint64_t index, std::uint64_t since) {
  transfers_.collect();
  HeldBlock* const held = held_.find(index);
  if (held == nullptr || !held->dirty || held->under_way()) return;
  if (held->dirty_since > since || held->written_last > since) return;
  if (!transfers_.has_room()) transfers_.drain();
  if (const int error = changes_->start(*held)) {
    throw Error(error, "stream '" + name() + "': " + cannot_move_block(error));
  }
}

void AnyOrderStream::await_changed(std::uint64_t index, std::uint64_t since) {
  HeldBlock* held = held_.find(index);
  if (held == nullptr || held->state == HeldBlock::State::kReading) return;
  transfers_.drain(*held);
  // A write that was under way when the call began has failed.
  if (held->dirty && held->dirty_since <= since && held->written_last <= since) {
    start_changed(index, since);
    transfers_.drain(*held);
  }
  if (held->dirty && held->dirty_since <= since) {
    const Status status = transfers_.failed_writing(*held);
    throw Error(status.error, status.cause);
  }
}

void AnyOrderStream::write_last_changes() noexcept {
  changes_->look_again(0, transfers_.blocks());
  held_.for_each([&](HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || !held.dirty || held.under_way()) return;
    if (!transfers_.has_room()) transfers_.drain();
    changes_->start_unprotected(held);
  });
  transfers_.drain();
  std::uint64_t lost = 0;
  Status first;
  held_.for_each([&](const HeldBlock& held) {
    if (held.state == HeldBlock::State::kFree || !held.dirty) return;
    if (lost == 0) first = transfers_.failed_writing(held);
    lost += transfers_.bytes_of(held.index);
  });
  if (lost == 0) return;
  LineBuffer<768> line;
  line.text("vortex: stream '").text(name()).text("': up to ").number(lost);
  line.text(" changed bytes are lost: ").text(first.cause).text(": error ");
  line.number(static_cast<std::uint64_t>(first.error));
  write_line(line.view());
}

}}  // namespace vortex::v0
