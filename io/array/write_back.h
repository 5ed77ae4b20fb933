// The changed blocks of a file, and their way into it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/array/held_blocks.h"
#include "io/array/held_transfers.h"
#include "io/sequence/request_units.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// A block is placed so that it can only be read, until a write to it faults; then it is dirty.
// While it is written it can only be read again: the disk gets what one moment showed, and whoever
// wants to change it waits. When the write fails the block is dirty as before.
//
// A transfer of the program's that goes around the processor (a direct read into the array) has
// pinned the pages and writes to them whatever they allow. It may be under way on the blocks
// touched last: of each of those that is written the sum is kept, and as long as it may go on, the
// block is dirty again once it has another one.
//
// One thread at a time. Nothing allocates.
class VORTEX_EXPORT WriteBack {
 public:
  // `kept`: of how many blocks, the last that were touched, the program may have pages pinned.
  WriteBack(RequestUnits& units, HeldBlocks& held, HeldTransfers& transfers,
            std::size_t kept) noexcept
      : units_(units), held_(held), transfers_(transfers), kept_(kept) {}

  // The block has just been placed for the program to change.
  void note_placed(HeldBlock& held) noexcept;
  // Lets the program change a placed block, when no write of it is under way any more. Not ok:
  // cancelled, or the kernel refuses.
  Status let_change(HeldBlock& held) noexcept;

  // Requests to write a dirty block, and the dirty ones beside it in its unit. Returns 0, or the
  // errno value by which the kernel refuses to protect it; it is dirty then as before. Needs room
  // for a request.
  int start(HeldBlock& held) noexcept;
  // The same where nobody touches the blocks any more.
  void start_unprotected(HeldBlock& held) noexcept;

  // A block that is watched is dirty if it has changed since it was written.
  void look_again(HeldBlock& held) noexcept;
  // The same for each from block `begin` to `end`. Those that were touched long ago are no longer
  // watched from then on.
  void look_again(std::uint64_t begin, std::uint64_t end) noexcept;

  // A moment: what was changed before it has a dirty_since that is not later.
  std::uint64_t now() noexcept { return clock_++; }

 private:
  bool joins(const HeldBlock* held) const noexcept;
  int protect(HeldBlock& held) noexcept;
  void start_run(HeldBlock& held, bool protecting) noexcept;
  std::uint64_t sum_of(const HeldBlock& held) const noexcept;

  RequestUnits& units_;
  HeldBlocks& held_;
  HeldTransfers& transfers_;
  const std::size_t kept_;
  std::uint64_t clock_ = 1;
};

}}  // namespace vortex::v0
