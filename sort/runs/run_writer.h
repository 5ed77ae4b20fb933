// Writes a sorted run to the disks.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "sort/record/copy_record.h"
#include "sort/record/forecast_keys.h"
#include "sort/record/record_order.h"
#include "sort/runs/merge_passes.h"
#include "sort/runs/run_sink.h"
#include "sort/runs/run_store.h"
#include "sort/runs/sort_watch.h"
#include "vortex/error.h"
#include "vortex/output_stream.h"

namespace vortex::inline v0 {

// A RecordOutput whose records become a run. Records must be appended in order. One thread.
//
// append() copies through the plain pointer of an output stream, so it may wait in a fault, and
// errors of the disks are failures of the stream: append inside guarded(). A writer that is
// destroyed without finish() gives all it has taken back.
template <RecordOrder O>
class RunWriter {
 public:
  // Blocks of the pool that a writer needs for good.
  static std::size_t blocks_needed(std::size_t block_bytes, std::size_t record_bytes,
                                   std::size_t write_behind) noexcept {
    return blocks_for_records(block_bytes, record_bytes) + (write_behind > 0 ? write_behind : 1);
  }

  // `most_bytes` is what the run will have at most: address space, and which folders have room for
  // it. A request to stop wakes whoever waits inside append() or finish(): ECANCELED. Throws Error:
  // EINVAL for records larger than a block, ENOMEM when the pool cannot guarantee the blocks or
  // there is no address space left.
  RunWriter(const O& order, RunStore& store, std::size_t write_behind, std::uint64_t most_bytes,
            const std::stop_token& stop = {})
      : record_bytes_(order.record_bytes()),
        block_bytes_(store.block_bytes()),
        keys_(order),
        run_(store, most_bytes) {
    if (record_bytes_ == 0 || record_bytes_ > block_bytes_) {
      throw Error(EINVAL, "records of " + format_bytes(record_bytes_) +
                              " do not fit in blocks of " + format_bytes(block_bytes_));
    }
    const std::size_t window = blocks_for_records(block_bytes_, record_bytes_);
    OutputStreamOptions options;
    options.name = "run";
    options.gaps = Gaps::kUnspecified;  // every byte is written
    options.comeback_blocks = window - 1;
    options.reserve_bytes =
        std::max<std::uint64_t>((most_bytes + block_bytes_ - 1) / block_bytes_, 1) * block_bytes_;
    options.least_reserve_bytes = options.reserve_bytes;
    stream_.emplace(std::make_unique<RunSink>(run_, window, write_behind), options);
    stop_.emplace(*stream_, stop);
    most_bytes_ = options.reserve_bytes;
    to_ = stream_->data();
  }
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  void append(const std::byte* record) {
    if (bytes_ + record_bytes_ > border_) next_block();
    copy_record(to_ + bytes_, record, record_bytes_);
    bytes_ += record_bytes_;
  }

  std::uint64_t records() const noexcept { return bytes_ / record_bytes_; }

  // Waits until everything is written. Throws Error when something was not; the run is lost then.
  Run finish() {
    if (bytes_ > 0) note_forecast();
    stream_->finish_bytes(bytes_);
    stop_.reset();
    stream_.reset();
    run_.bytes = bytes_;
    run_.records = records();
    return std::move(run_);
  }

 private:
  // The next record ends beyond the block that is being written. Its slot is found here because
  // that may allocate, which the sink, inside a fault, must not.
  void next_block() {
    if (bytes_ > 0) note_forecast();
    if (border_ == most_bytes_) {
      throw Error(EFBIG, "a run is longer than the " + format_bytes(most_bytes_) + " announced");
    }
    const std::uint64_t index = border_ / block_bytes_;
    const unsigned disk = run_.allocation.disk(index);
    run_.slots.push_back(Run::kFreed);
    run_.slots.back() = run_.store->take_slot(disk);
    border_ += block_bytes_;
  }

  // Of the last whole record of a block: when a merge has used it up, it touches the next block.
  void note_forecast() {
    const std::size_t at = run_.forecast_keys.size();
    run_.forecast_keys.resize(at + keys_.bytes());
    keys_.make(to_ + bytes_ - record_bytes_, run_.forecast_keys.data() + at);
  }

  std::size_t record_bytes_;
  std::size_t block_bytes_;
  ForecastKeys<O> keys_;
  Run run_;  // outlives the stream, whose sink writes to its slots
  std::optional<OutputStream<std::byte>> stream_;
  std::optional<StreamStop> stop_;
  std::uint64_t most_bytes_ = 0;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t border_ = 0;  // end of the block that is being written
};

}  // namespace vortex::inline v0
