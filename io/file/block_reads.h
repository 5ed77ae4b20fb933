// The requests that fill held blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/disk/disk.h"
#include "io/file/file_layout.h"
#include "io/file/held_blocks.h"
#include "io/file/page_cache.h"
#include "io/file/read_counters.h"
#include "vortex/block_pool.h"
#include "vortex/detail/export.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"

namespace vortex::inline v0 {

// Reads blocks of a file of known length that can be read at any offset, several blocks by one
// request where they follow each other in a unit of the layout.
//
// One thread at a time, but for cancel() and the statistics. Only the constructor allocates.
class VORTEX_EXPORT BlockReads {
 public:
  // `group` blocks make a unit. At most `requests` are under way at once. Throws
  // Error(EINVAL) when the block size does not suit direct I/O on the file.
  BlockReads(FileLayout& layout, BlockPool& pool, std::size_t group, Caching caching,
             std::size_t requests);
  // The requests must have ended; see drain().
  ~BlockReads() = default;
  BlockReads(const BlockReads&) = delete;
  BlockReads& operator=(const BlockReads&) = delete;

  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t blocks() const noexcept { return (length_ + block_bytes_ - 1) / block_bytes_; }
  std::size_t group() const noexcept { return group_; }

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

  // Ends waiting, now and later. From any thread.
  void cancel() noexcept;

  FileSourceStatistics statistics() const noexcept { return counters_.statistics(); }
  std::uint64_t reread_bytes() const noexcept {
    return reread_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    Request request;
    Disk* disk = nullptr;
    bool busy = false;
    unsigned count = 0;
    std::array<HeldBlock*, kMaxPieces> blocks{};
  };

  bool wait(Slot& slot) noexcept;
  void finish(Slot& slot) noexcept;

  FileLayout& layout_;
  BlockPool& pool_;
  const std::size_t block_bytes_;
  const std::size_t group_;
  const Caching caching_;
  const std::uint64_t length_;
  PageCacheProbe page_cache_;
  std::vector<Slot> slots_;
  std::vector<Pieces> pieces_;  // of the slots, where requests have several
  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> seen_;  // a bit for each block that has been asked for
  std::atomic<bool> stopped_{false};
  CauseText cause_;
  ReadCounters counters_;
  std::atomic<std::uint64_t> reread_bytes_{0};
};

}  // namespace vortex::inline v0
