#include "io/file/write_back.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "io/disk/request.h"
#include "vortex/pool/block_memory.h"

namespace vortex::inline v0 {

void WriteBack::note_placed(HeldBlock& held) noexcept {
  held.writable = true;
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
    run[count++]->written_last = clock_;
  }
  transfers_.start_writing({run.data(), count});
}

}  // namespace vortex::inline v0
