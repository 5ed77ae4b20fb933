// Writes a sorted run to the disks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "io/stream/file_sink.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/record_output.h"
#include "sort/runs/run.h"
#include "sort/runs/sort_watch.h"
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

  // Waits until `bytes` are written. Throws Error when something was not; the run is lost
  // then.
  Run finish(std::uint64_t bytes, std::uint64_t records);

 private:
  const std::uint64_t most_bytes_;
  RunPacking* const packing_;
  Run run_;                   // outlives the stream, whose sink finds places for its blocks
  FileSink* sink_ = nullptr;  // of the stream
  std::optional<OutputStream<std::byte>> stream_;
  std::optional<StreamStop> stop_;
};

// An output whose records become a run, as the array of a RunStream. They must come in order. One
// thread.
class RunWriter final : public RecordOutput {
 public:
  // Blocks of the pool that a writer needs for good.
  static std::size_t blocks_needed(std::size_t block_bytes, std::size_t record_bytes,
                                   std::size_t write_behind) noexcept;

  // Throws Error as RunStream does, and EINVAL for records larger than a block. The order, the
  // store and the packing must outlive it.
  RunWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
            std::uint64_t most_bytes, RunPacking* packing = nullptr,
            const std::stop_token& stop = {}, std::uint64_t expected_bytes = kAsLongAsMayBe);

  // Throws Error(EFBIG) when the run would be longer than was said.
  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override;

  std::uint64_t records() const noexcept { return bytes_ / record_bytes_; }

  // As RunStream::finish().
  Run finish();

 private:
  void note_forecast();

  std::size_t record_bytes_;
  std::size_t block_bytes_;
  ForecastKeys keys_;
  std::vector<std::byte> forecast_keys_;
  std::optional<RunStream> stream_;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t blocks_ = 0;  // that records have begun
};

}}  // namespace vortex::v0
