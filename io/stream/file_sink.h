// Writes a file behind an output stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "io/sequence/block_transfers.h"
#include "io/sequence/request_units.h"
#include "vortex/block_pool.h"
#include "vortex/error.h"
#include "vortex/file_writer.h"
#include "vortex/output_stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

struct FileSinkOptions {
  std::size_t blocks_for_stream = 2;  // L + 1
  std::size_t write_behind = 4;       // requests under way
  RequestUnits::Options requests;
  // Blocks hold zeros when the stream gets them. The thread of a disk clears them behind a write,
  // so that a writer waits for that only where it is faster than the disk and the disk's thread.
  bool clear_blocks = false;
  bool sync = false;  // finish() returns when the data, and the name, have reached the disk
};

// Takes complete blocks and writes them while the stream goes on, `write_behind` requests at once;
// their blocks come back in the order in which the disk finishes them. Parts that a writer jumps
// over become zeros: a hole in the file where the file system has holes. The first error ends the
// stream; nothing is published then.
//
// finish() cuts the file to the exact byte. Needs blocks_needed() blocks of the pool, for good.
class VORTEX_EXPORT FileSink final : public Sink {
 public:
  static std::size_t blocks_needed(const FileSinkOptions& options, std::size_t block_bytes,
                                   std::size_t unit_bytes = 0);

  // Throws Error: what RequestUnits and its quota() throw.
  FileSink(BlockPool& pool, std::unique_ptr<FileLayout> layout, const FileSinkOptions& options);
  // Waits for the requests under way.
  ~FileSink() override;

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return blocks_for_stream_; }
  Taken take(std::uint64_t index) noexcept override;
  Status complete(std::uint64_t index, Block block, std::size_t bytes) noexcept override;
  Status skip(std::uint64_t first, std::uint64_t count) noexcept override;
  void discard(Block block) noexcept override { quota_.give_back(block); }
  Status finish(std::uint64_t length) noexcept override;
  void cancel() noexcept override { units_.cancel(); }

  const FileLayout& layout() const noexcept { return units_.layout(); }
  TransferStatistics statistics() const noexcept { return writes_.statistics(); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Slot {
    PlacedRequest write;
    Pieces pieces;
    std::uint64_t unit = kNone;
    std::size_t begin = 0;  // of its bytes in the unit
    std::size_t bytes = 0;
    std::uint64_t number = 0;  // in the order of submission
    unsigned count = 0;
    std::array<Block, kMaxPieces> blocks{};
  };

  Slot* free_slot() noexcept;
  void start(Slot& slot, bool again) noexcept;
  Status submit_collected() noexcept;
  Status assign_up_to(std::uint64_t unit) noexcept;
  void settle(Slot& slot) noexcept;
  void settle_ended() noexcept;
  bool wait_for_oldest() noexcept;
  Status failed(const FileLayout::Place& place, std::uint64_t offset, int error) noexcept;

  RequestUnits units_;
  const std::size_t blocks_for_stream_;
  const bool clear_blocks_;
  const bool sync_;
  BlockQuota quota_;
  std::vector<Slot> slots_;
  std::vector<Block> cleared_;  // free, and all zeros
  Slot* collecting_ = nullptr;
  std::uint64_t next_unit_ = 0;  // units below have a place
  std::uint64_t submitted_ = 0;
  BlockTransfers writes_;
  Status first_error_;
  CauseText cause_;  // of finish()
};

}}  // namespace vortex::v0
