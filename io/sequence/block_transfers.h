// Reads or writes blocks of sequences, for whoever decides which block is moved when.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/disk/disk.h"
#include "io/file/page_cache.h"
#include "io/sequence/file_layout.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Finds out where blocks lie and whether the page cache has what is to be read, sends the requests,
// waits for them, counts, and says what failed. Which block is moved when is decided by a reader
// that goes forward (FileSource), by one that follows several walks (HeldTransfers), by the policy
// of a merge (MergePrefetcher), and by whoever writes (FileSink, WriteBack).
//
// start() and failed() are for one thread at a time. Nothing here allocates.
class VORTEX_EXPORT BlockTransfers {
 public:
  // The part of a sequence that one request moves, within a unit.
  struct Range {
    std::uint64_t unit = 0;
    std::size_t unit_bytes = 0;
    std::size_t begin = 0;  // in the unit
    std::size_t bytes = 0;
    // For a write: the blocks may be placed, and nothing behind the range may be written, not even
    // the rest of a sector.
    bool as_placed = false;
    bool again = false;  // a transfer that is repeated: the statistics have it
  };

  BlockTransfers(Operation operation, BlockPool& pool, Caching caching) noexcept
      : operation_(operation), pool_(pool), caching_(caching) {}

  // Begins to move the range to or from the blocks, which rest or are not changed meanwhile.
  // `pieces` may be null for one block. The rest of the sector behind a write is zeros. With
  // `more_to_come` see Disk::submit().
  void start(PlacedRequest& transfer, FileLayout& layout, const Range& range,
             std::span<const Block> blocks, Pieces* pieces, bool more_to_come = false) noexcept;

  // Waits until the transfer has ended. False: `stop` became true first. Any thread.
  bool await(PlacedRequest& transfer, const std::atomic<bool>& stop) noexcept;

  // Once it has ended: why the first `bytes` (or all, if they are fewer) were not read: an errno
  // value, ENODATA where the file ends too early. 0: they were.
  static int error_before(const Request& read, std::size_t bytes) noexcept;

  // Words for such an error at a byte of the data in the file of the place, or for one that leaves
  // no place. Valid until the next call.
  Status failed(const FileLayout& layout, const FileLayout::Place& place, std::uint64_t offset,
                int error) noexcept;

  // Counts of reading, or of writing. Any thread.
  TransferStatistics statistics() const noexcept;

 private:
  using Counter = std::atomic<std::uint64_t>;

  bool goes_direct(const FileLayout::Place& place, const Range& range) noexcept;

  const Operation operation_;
  BlockPool& pool_;
  const Caching caching_;
  PageCacheProbe page_cache_;
  CauseText cause_;
  Counter requests_{0};
  Counter cached_requests_{0};
  Counter bytes_{0};
  Counter waits_{0};
  Counter waited_ns_{0};
};

}}  // namespace vortex::v0
