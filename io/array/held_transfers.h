// The requests that fill held blocks, and those that write them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/array/held_blocks.h"
#include "io/sequence/block_transfers.h"
#include "io/sequence/request_units.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Reads and writes blocks of a file of known length that can be had at any offset, several blocks
// by one request where they follow each other in a unit of the layout.
//
// One thread at a time, but for the statistics. Only the constructor and resize() allocate.
class VORTEX_EXPORT HeldTransfers {
 public:
  // At most `requests` are under way at once, none when it goes; see drain(). The units outlive it.
  HeldTransfers(RequestUnits& units, std::size_t requests);

  std::uint64_t length() const noexcept { return length_.load(std::memory_order_relaxed); }
  std::uint64_t blocks() const noexcept { return detail::units_for(length(), block_bytes_); }
  // How many bytes of the file a block has: less than all for the last one.
  std::size_t bytes_of(std::uint64_t index) const noexcept;
  // The file has `length` bytes from now on. Nothing is under way. Throws std::bad_alloc, with
  // nothing changed.
  void resize(std::uint64_t length);

  // A request could be made now.
  bool has_room() const noexcept { return !free_.empty(); }
  // Reads the blocks, which follow each other in one unit and rest. Needs room.
  void start_reading(std::span<HeldBlock* const> blocks) noexcept;
  // Writes the blocks, which follow each other in one unit, from where they are. Needs room. Nobody
  // may change them until it has ended; they count as clean from now on, and are dirty again if the
  // write fails. The last block of a file whose length is no multiple of what direct I/O demands
  // goes through the page cache.
  void start_writing(std::span<HeldBlock* const> blocks) noexcept;
  // Notes what has ended: the blocks are ready or written, or have their error.
  void collect() noexcept;
  // Waits until the block has no request under way. False: cancelled.
  bool settle(HeldBlock& held) noexcept;
  // Requests have been made and have not been noted as ended.
  bool busy() const noexcept { return free_.size() < slots_.size(); }
  // Waits until one of them has ended. False: cancelled.
  bool settle_any() noexcept;
  // Wait until the block has no request under way, or until nothing has, whatever happens.
  void drain(HeldBlock& held) noexcept;
  void drain() noexcept;
  // Words for the error of a block that was read or written, valid until the next call.
  Status failed_reading(const HeldBlock& held) noexcept {
    return failed(reads_, held, held.bytes, held.error);
  }
  Status failed_writing(const HeldBlock& held) noexcept {
    return failed(writes_, held, 0, held.write_error);
  }

  bool was_read_before(std::uint64_t index) const noexcept {
    return (seen_[index / 64] >> (index % 64) & 1) != 0;
  }

  TransferStatistics read_statistics() const noexcept { return reads_.statistics(); }
  TransferStatistics write_statistics() const noexcept { return writes_.statistics(); }
  std::uint64_t reread_bytes() const noexcept {
    return reread_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    PlacedRequest transfer;
    bool busy = false;
    unsigned count = 0;
    std::array<HeldBlock*, kMaxPieces> blocks{};
  };

  Status failed(BlockTransfers& transfers, const HeldBlock& held, std::size_t done,
                int error) noexcept;
  std::size_t begin_in_unit(std::uint64_t index) const noexcept {
    return static_cast<std::size_t>(index % group()) * block_bytes_;
  }
  void start(BlockTransfers& transfers, std::span<HeldBlock* const> blocks,
             bool as_placed) noexcept;
  bool wait(Slot& slot, const std::atomic<bool>& stop) noexcept;
  void finish(Slot& slot) noexcept;

  std::size_t group() const noexcept { return units_.group(); }

  RequestUnits& units_;
  const std::size_t block_bytes_;
  std::atomic<std::uint64_t> length_;
  BlockTransfers reads_;
  BlockTransfers writes_;
  std::vector<Slot> slots_;
  std::vector<Pieces> pieces_;  // of the slots, where requests have several
  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> seen_;  // a bit for each block that has been asked for
  std::atomic<std::uint64_t> reread_bytes_{0};
};

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
  void start_unprotected(HeldBlock& held) noexcept { start_run(held, false); }

  // A block that is watched is dirty if it has changed since it was written.
  void look_again(HeldBlock& held) noexcept;
  // The same for each from block `begin` to `end`. Those that were touched long ago are no longer
  // watched from then on.
  void look_again(std::uint64_t begin, std::uint64_t end) noexcept;

  // A moment: what was changed before it has a dirty_since that is not later.
  std::uint64_t now() noexcept { return clock_++; }

 private:
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
