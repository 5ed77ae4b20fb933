// Reads a file ahead of an input stream.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "io/sequence/block_transfers.h"
#include "io/sequence/request_units.h"
#include "vortex/block_pool.h"
#include "vortex/file_reader.h"
#include "vortex/input_stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

struct FileSourceOptions {
  std::size_t blocks_for_stream = 2;  // M + 1
  std::size_t read_ahead = 4;         // requests beyond the one in use
  RequestUnits::Options requests;
};

// Keeps `read_ahead` requests under way or ready beyond the block in use. Results may come in any
// order; the stream sees blocks in its own (Figure 3 of the Vortex paper, with N the requests read
// ahead). Needs blocks_needed() blocks of the pool, for good.
class VORTEX_EXPORT FileSource final : public Source {
 public:
  // For a file of that length, where it is known: never more than it has.
  static std::size_t blocks_needed(const FileSourceOptions& options, std::size_t block_bytes,
                                   std::size_t unit_bytes = 0,
                                   std::optional<std::uint64_t> length = {});

  // Throws Error: what RequestUnits and its quota() throw.
  FileSource(BlockPool& pool, std::unique_ptr<FileLayout> layout, const FileSourceOptions& options);
  // Waits for the requests under way.
  ~FileSource() override;

  BlockPool& pool() noexcept override { return quota_.pool(); }
  std::size_t blocks_for_stream() const noexcept override { return blocks_for_stream_; }
  Taken take(std::uint64_t index, std::uint64_t floor) noexcept override;
  void release(std::uint64_t, Block block) noexcept override { quota_.give_back(block); }
  std::optional<std::uint64_t> length() const noexcept override;
  void cancel() noexcept override { units_.cancel(); }

  const FileLayout& layout() const noexcept { return units_.layout(); }
  TransferStatistics statistics() const noexcept { return reads_.statistics(); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Slot {
    PlacedRequest read;
    Pieces pieces;
    std::uint64_t unit = kNone;
    std::array<Block, kMaxPieces> blocks{};  // not handed out yet
  };

  Slot& slot_of(std::uint64_t unit) noexcept { return slots_[unit % slots_.size()]; }
  bool start(std::uint64_t unit) noexcept;
  void read_up_to(std::uint64_t unit) noexcept;
  void retire(Slot& slot) noexcept;
  void note_end(const Slot& slot) noexcept;
  Status failed(const Slot& slot, int error) noexcept;

  RequestUnits units_;
  const std::size_t read_ahead_;
  const std::size_t blocks_for_stream_;
  BlockTransfers reads_;
  BlockQuota quota_;
  std::vector<Slot> slots_;
  std::uint64_t lowest_unit_ = 0;  // units below will not be asked for
  std::uint64_t next_unit_ = 0;    // units below have been requested
  std::atomic<std::uint64_t> length_;
};

}}  // namespace vortex::v0
