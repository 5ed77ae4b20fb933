// Writes a sorted run to the disks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>

#include "sort/record/forecast_keys.h"
#include "sort/record/record_output.h"
#include "sort/runs/run_store.h"
#include "sort/runs/sort_watch.h"
#include "vortex/output_stream.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// An output whose records become a run. They must come in order. One thread.
//
// The room is the plain array of an output stream, so writing to it may wait in a fault, and errors
// of the disks are failures of the stream: write inside guarded(). A writer that is destroyed
// without finish() gives all it has taken back.
class RunWriter final : public RecordOutput {
 public:
  // Blocks of the pool that a writer needs for good.
  static std::size_t blocks_needed(std::size_t block_bytes, std::size_t record_bytes,
                                   std::size_t write_behind) noexcept;

  // `most_bytes` is what the run will have at most: address space, and which folders have room for
  // it. A request to stop wakes whoever waits inside a fault or finish(): ECANCELED. Throws Error:
  // EINVAL for records larger than a block, ENOMEM when the pool cannot guarantee the blocks or
  // there is no address space left. The order and the store must outlive it.
  RunWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
            std::uint64_t most_bytes, const std::stop_token& stop = {});
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  // Throws Error(EFBIG) when the run would be longer than was said.
  std::span<std::byte> room(std::size_t most_bytes) override;
  void written(std::size_t bytes) override;

  std::uint64_t records() const noexcept { return bytes_ / record_bytes_; }

  // Waits until everything is written. Throws Error when something was not; the run is lost then.
  Run finish();

 private:
  void note_forecast();

  std::size_t record_bytes_;
  std::size_t block_bytes_;
  ForecastKeys keys_;
  Run run_;  // outlives the stream, whose sink finds places for its blocks
  std::optional<OutputStream<std::byte>> stream_;
  std::optional<StreamStop> stop_;
  std::uint64_t most_bytes_ = 0;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t blocks_ = 0;  // that records have begun
};

}}  // namespace vortex::v0
