#include "io/array/write_back.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "io/array/content_sum.h"
#include "io/disk/request.h"
#include "vortex/pool/block_memory.h"

namespace vortex { inline namespace v0 {

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

bool WriteBack::joins(const HeldBlock* held) const noexcept {
  return held != nullptr && held->dirty && !held->under_way();
}

int WriteBack::protect(HeldBlock& held) noexcept {
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

void WriteBack::start_unprotected(HeldBlock& held) noexcept { start_run(held, false); }

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
    return joins(other) && (!protecting || protect(*other) == 0);
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
