// The requests that fill held blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/file/block_reads.h"
#include "io/file/held_blocks.h"
#include "io/file/request_units.h"
#include "vortex/detail/export.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"

namespace vortex::inline v0 {

// Reads blocks of a file of known length that can be read at any offset, several blocks by one
// request where they follow each other in a unit of the layout.
//
// One thread at a time, but for the statistics. Only the constructor allocates.
class VORTEX_EXPORT HeldReads {
 public:
  // At most `requests` are under way at once. The units outlive it.
  HeldReads(RequestUnits& units, std::size_t requests);
  // The requests must have ended; see drain().
  ~HeldReads() = default;
  HeldReads(const HeldReads&) = delete;
  HeldReads& operator=(const HeldReads&) = delete;

  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t blocks() const noexcept { return (length_ + block_bytes_ - 1) / block_bytes_; }

  // A request could be made now.
  bool has_room() const noexcept { return !free_.empty(); }
  // Reads the blocks, which follow each other in one unit and rest. Needs room.
  void start(std::span<HeldBlock* const> blocks) noexcept;
  // Notes what has ended: the blocks are ready, or have their error.
  void collect() noexcept;
  // Waits until the block has been read. False: cancelled.
  bool settle(HeldBlock& held) noexcept;
  // Requests have been made and have not been noted as ended.
  bool busy() const noexcept { return free_.size() < slots_.size(); }
  // Waits until one of them has ended. False: cancelled.
  bool settle_any() noexcept;
  // Waits until all have ended, whatever happens.
  void drain() noexcept;
  // Words for the error of a block, valid until the next call.
  Status failed(const HeldBlock& held) noexcept;

  bool was_read_before(std::uint64_t index) const noexcept {
    return (seen_[index / 64] >> (index % 64) & 1) != 0;
  }

  FileSourceStatistics statistics() const noexcept { return reads_.statistics(); }
  std::uint64_t reread_bytes() const noexcept {
    return reread_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    PlacedRequest read;
    bool busy = false;
    unsigned count = 0;
    std::array<HeldBlock*, kMaxPieces> blocks{};
  };

  bool wait(Slot& slot) noexcept;
  void finish(Slot& slot) noexcept;

  std::size_t group() const noexcept { return units_.group(); }

  RequestUnits& units_;
  const std::size_t block_bytes_;
  const std::uint64_t length_;
  BlockReads reads_;
  std::vector<Slot> slots_;
  std::vector<Pieces> pieces_;  // of the slots, where requests have several
  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> seen_;  // a bit for each block that has been asked for
  std::atomic<std::uint64_t> reread_bytes_{0};
};

}  // namespace vortex::inline v0
