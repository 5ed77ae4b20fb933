// Reads blocks of sequences, for whoever decides which block is read when.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/disk/disk.h"
#include "io/file/page_cache.h"
#include "io/sequence/file_layout.h"
#include "io/sequence/transfer_counters.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/export.h"
#include "vortex/error.h"
#include "vortex/file_reader.h"

namespace vortex { inline namespace v0 {

// Finds out where blocks lie and whether the page cache has them, sends the requests, waits for
// them, counts, and says what failed. Which block is read when is decided by a reader that goes
// forward (FileSource), by one that follows several walks (HeldReads), and by the policy of a merge
// (MergePrefetcher).
//
// start() and failed() are for one thread at a time. Nothing here allocates.
class VORTEX_EXPORT BlockReads {
 public:
  // The part of a sequence that one request reads, within a unit.
  struct Range {
    std::uint64_t unit = 0;
    std::size_t unit_bytes = 0;
    std::size_t begin = 0;  // in the unit
    std::size_t bytes = 0;
  };

  BlockReads(BlockPool& pool, Caching caching) noexcept : pool_(pool), caching_(caching) {}

  // Begins to read the range into the blocks, which rest. `pieces` may be null for one block. With
  // `more_to_come` see Disk::submit().
  void start(PlacedRequest& read, FileLayout& layout, const Range& range,
             std::span<const Block> blocks, Pieces* pieces, bool more_to_come = false) noexcept;

  // Waits until the read has ended. False: `stop` became true first. Any thread.
  bool await(PlacedRequest& read, const std::atomic<bool>& stop) noexcept;

  // Once it has ended: why its first `bytes` (or all, if they are fewer) did not come: an errno
  // value, ENODATA where the file ends too early. 0: they did.
  static int error_before(const Request& read, std::size_t bytes) noexcept;

  // Words for such an error at a byte of the data in the file of the place. Valid until the next
  // call.
  Status failed(const FileLayout& layout, const FileLayout::Place& place, std::uint64_t offset,
                int error) noexcept;

  FileSourceStatistics statistics() const noexcept { return counters_.read_statistics(); }

 private:
  BlockPool& pool_;
  const Caching caching_;
  PageCacheProbe page_cache_;
  CauseText cause_;
  TransferCounters counters_;
};

}}  // namespace vortex::v0
