// Writes a sorted run to the disks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "io/stream/file_sink.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/record_output.h"
#include "sort/runs/run.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/output_stream.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// A run of any records, as the plain array of a stream.
//
// Writing to the array may wait in a fault, and errors of the disks are failures of the stream: do
// it inside guarded(). One that is destroyed without finish() gives all it has taken back.
class RunStream {
 public:
  struct Options {
    std::size_t window_blocks = 1;  // that writers go back into, the newest included
    std::size_t write_behind = 0;   // blocks
    std::uint64_t most_bytes = 0;   // that the run will have: address space
    std::uint64_t expected_bytes = kAsLongAsMayBe;  // which folders have room for them
    RunPacking* packing = nullptr;                  // outlives it; null: the run is not packed
    // Of a run that is written in parts from its end on, which outlive it; and its blocks, where
    // they are known, and get their places beforehand. Null: the run is written from its beginning.
    const FallingParts* parts = nullptr;
    std::uint64_t blocks = 0;
    // A request wakes whoever waits inside a fault or finish(): ECANCELED.
    std::stop_token stop = {};
  };

  // Takes `window_blocks` and `write_behind` blocks of the store's pool, one at least, for good.
  // Throws Error(ENOMEM) when the pool cannot guarantee them or there is no address space left.
  RunStream(RunStore& store, const Options& options);
  RunStream(const RunStream&) = delete;
  RunStream& operator=(const RunStream&) = delete;

  RunStore& store() const noexcept { return *run_.store; }
  std::byte* bytes() noexcept { return stream_->data(); }
  // Whole blocks.
  std::uint64_t most_bytes() const noexcept { return most_bytes_; }

  // Whether the blocks of the run have their places.
  bool placed_beforehand() const noexcept { return placed_beforehand_; }

  // Waits until `bytes` are written. Throws Error when something was not; the run is lost
  // then.
  Run finish(std::uint64_t bytes, std::uint64_t records);

 private:
  const std::uint64_t most_bytes_;
  RunPacking* const packing_;
  Run run_;  // outlives the stream, whose sink finds places for its blocks
  const bool placed_beforehand_;
  FileSink* sink_ = nullptr;  // of the stream
  std::optional<OutputStream<std::byte>> stream_;
  std::optional<StreamStop> stop_;
};

// An output whose records become a run, as the array of a RunStream. One thread.
class RunOutput : public RecordOutput {
 public:
  // As RunStream::finish().
  virtual Run finish() = 0;

 protected:
  // Throws Error(EINVAL) for records larger than a block. The order outlives it.
  RunOutput(const RecordOrder& order, std::size_t block_bytes);

  // Blocks have their forecasts in the order in which they are written.
  std::uint64_t blocks_noted() const noexcept { return forecast_keys_.size() / keys_.bytes(); }
  void append_forecast(const std::byte* record);

  const std::size_t record_bytes_;
  const std::size_t block_bytes_;
  const ForecastKeys keys_;
  std::vector<std::byte> forecast_keys_;
};

// The records must come in order.
class RunWriter final : public RunOutput {
 public:
  // Blocks of the pool that a writer needs for good.
  static std::size_t blocks_needed(std::size_t block_bytes, std::size_t record_bytes,
                                   std::size_t write_behind) noexcept;

  // Throws Error as RunStream does, and EINVAL for records larger than a block. The order, the
  // store and the packing must outlive it. `wide` of the blocks that are written behind are kept
  // for rooms instead, all but one of them at most.
  RunWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
            std::uint64_t most_bytes, RunPacking* packing = nullptr,
            const std::stop_token& stop = {}, std::uint64_t expected_bytes = kAsLongAsMayBe,
            std::size_t wide = 0);

  // Of `wide` blocks and what is left of the one before, which any thread may store to in any
  // order; none: as room_in_block(). Throws Error(EFBIG) when the run would be longer than was
  // said.
  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override;

  std::uint64_t records() const noexcept { return bytes_ / record_bytes_; }

  Run finish() override;

 private:
  void note_forecast(std::uint64_t end);

  const std::size_t wide_;
  std::optional<RunStream> stream_;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Blocks of the pool, as plain memory.
class KeptBlocks {
 public:
  // Throws Error(ENOMEM) when the pool cannot guarantee so many.
  KeptBlocks(BlockPool& pool, std::size_t count, const char* what_for);
  ~KeptBlocks() { give_back(); }
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  std::byte* bytes(std::size_t block) const noexcept { return quota_.pool().home(blocks_[block]); }

 private:
  void give_back() noexcept;

  BlockQuota quota_;
  std::vector<Block> blocks_;
};

// A part of a run whose records are known to be in [begin, end) of it, in bytes; threads may write
// the others meanwhile. It writes the blocks that begin there: what lies in front of the first of
// them, its head, is kept in memory for the part in front, which has its last block from it.
class RunPartWriter final : public RunOutput {
 public:
  // A part is longer than a head, which takes a block besides what a RunWriter does. The rest as
  // for that.
  static constexpr std::size_t kBlocksForHead = 1;
  RunPartWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
                std::uint64_t begin, std::uint64_t end, RunPacking* packing,
                const std::stop_token& stop);

  std::span<std::byte> room(std::size_t most_bytes) override { return to_.room(most_bytes); }
  void written(std::size_t bytes) override;

  // Valid as long as this is.
  std::span<const std::byte> head() const noexcept { return head_; }
  // The part in front of one with this head, which has been written. As RunOutput::finish(), of
  // the last part.
  Run finish_before(std::span<const std::byte> head);
  Run finish() override { return finish_before({}); }

 private:
  void note_forecast(std::uint64_t end);
  void note_forecasts();

  const KeptBlocks kept_;
  const std::span<std::byte> head_;
  std::vector<std::byte> in_two_;  // a record of the head that goes on in the stream
  RunStream stream_;
  PointerOutput to_;
  std::uint64_t bytes_ = 0;  // with the head
};

// Of parts that lie one behind the other, and have been written, the run. Throws as
// RunOutput::finish().
Run run_of_parts(std::span<const std::unique_ptr<RunPartWriter>> parts);

// The records come in parts, in order in each, and each part comes before those that came before
// it: its records go in front of theirs, and fill their first block. What begins a block of the run
// is kept in memory until the next part comes. The last part may begin within a block.
class FallingRunWriter final : public RunOutput {
 public:
  // Of the blocks that a RunWriter would have behind it, which are as many at least.
  static constexpr std::size_t kLeastWriteBehind = 3;

  // Where `whole_bytes` are not 0, the run is expected to have so many, and to be in a file of its
  // own if it has. The rest as for RunWriter.
  FallingRunWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
                   std::uint64_t most_bytes, std::uint64_t whole_bytes, RunPacking* packing,
                   const std::stop_token& stop, std::uint64_t expected_bytes, std::size_t wide = 0);
  // The next records are so many bytes. Throws Error(EFBIG) when the run would be longer than was
  // said.
  void begin_part(std::size_t bytes);
  // As of a RunWriter, but for what is kept.
  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override;

  Run finish() override;

 private:
  static constexpr std::size_t kBlocksKept = 2;

  const std::byte* kept() const noexcept {
    return blocks_kept_.bytes(keeping_) + block_bytes_ - kept_bytes_;
  }
  void add_blocks(std::uint64_t blocks);
  void enter_blocks(const std::byte* records, std::size_t bytes);
  void note_forecast(const std::byte* record);
  void note_forecast_of_kept(const std::byte* record_before);
  void end_part();

  FallingParts parts_;
  const std::uint64_t whole_blocks_;
  const std::size_t last_lacks_;  // bytes that the last block of the run does not have
  const std::size_t wide_;
  KeptBlocks blocks_kept_;
  std::optional<RunStream> stream_;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_ = 0;   // in the stream
  std::uint64_t blocks_ = 0;  // that records have begun there
  std::uint64_t records_ = 0;
  // The end of block `keeping_` begins the run as it is now. What the last block of the run does
  // not have lies behind that, until a block has been filled.
  std::size_t keeping_ = 0;
  std::size_t kept_bytes_;
  std::size_t lacking_;
  // Of a part.
  std::size_t left_ = 0;     // to come
  std::size_t to_keep_ = 0;  // of that, at its beginning
  std::byte* keep_at_ = nullptr;
  std::size_t keeps_next_ = 0;  // instead of what is kept now
  bool fills_blocks_ = false;
  std::vector<std::byte> in_two_;  // a record that is kept, and goes on in the stream
  const std::byte* last_ = nullptr;
  std::span<std::byte> room_;
};

}}  // namespace vortex::v0
