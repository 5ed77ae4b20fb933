#include "sort/runs/run_writer.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

RunStream::RunStream(RunStore& store, const Options& options)
    : most_bytes_(store.blocks_of(options.most_bytes) * store.block_bytes()),
      packing_(options.packing),
      run_(store, options.most_bytes, options.expected_bytes) {
  FileSinkOptions for_sink;
  for_sink.blocks_for_stream = options.window_blocks;
  for_sink.write_behind = options.write_behind;
  auto sink = std::make_unique<FileSink>(store.pool(), std::make_unique<RunLayout>(run_, packing_),
                                         for_sink);
  sink_ = sink.get();
  OutputStreamOptions for_stream;
  for_stream.name = "run";
  for_stream.gaps = Gaps::kUnspecified;  // every byte is written
  for_stream.comeback_blocks = options.window_blocks - 1;
  for_stream.reserve_bytes = most_bytes_;
  for_stream.least_reserve_bytes = most_bytes_;
  stream_.emplace(std::move(sink), for_stream);
  stop_.emplace(*stream_, options.stop);
}

Run RunStream::finish(std::uint64_t bytes, std::uint64_t records) {
  stream_->finish_bytes(bytes);
  if (packing_ != nullptr) {
    packing_->end_run(run_.bytes, run_.stored_bytes(), sink_->statistics().waited_ns);
  }
  stop_.reset();
  stream_.reset();
  run_.records = records;
  run_.places.end();
  run_.packed.end();
  return std::move(run_);
}

std::size_t RunWriter::blocks_needed(std::size_t block_bytes, std::size_t record_bytes,
                                     std::size_t write_behind) noexcept {
  return blocks_for_records(block_bytes, record_bytes) + (write_behind > 0 ? write_behind : 1);
}

RunWriter::RunWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
                     std::uint64_t most_bytes, RunPacking* packing, const std::stop_token& stop,
                     std::uint64_t expected_bytes)
    : record_bytes_(order.record_bytes()), block_bytes_(store.block_bytes()), keys_(order) {
  if (record_bytes_ == 0 || record_bytes_ > block_bytes_) {
    throw Error(EINVAL, "records of " + format_bytes(record_bytes_) + " do not fit in blocks of " +
                            format_bytes(block_bytes_));
  }
  stream_.emplace(
      store, RunStream::Options{.window_blocks = blocks_for_records(block_bytes_, record_bytes_),
                                .write_behind = write_behind,
                                .most_bytes = most_bytes,
                                .expected_bytes = expected_bytes,
                                .packing = packing,
                                .stop = stop});
  to_ = stream_->bytes();
}

std::span<std::byte> RunWriter::room(std::size_t most_bytes) {
  if (bytes_ + record_bytes_ > stream_->most_bytes()) {
    throw Error(EFBIG,
                "a run is longer than the " + format_bytes(stream_->most_bytes()) + " announced");
  }
  // Before the next block is touched: it may end the stay of the one before in memory.
  if (bytes_ + record_bytes_ > blocks_ * block_bytes_) note_forecast();
  return {to_ + bytes_, room_in_block(bytes_, record_bytes_, block_bytes_, most_bytes)};
}

void RunWriter::written(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > blocks_ * block_bytes_) ++blocks_;
}

Run RunWriter::finish() {
  note_forecast();
  Run run = stream_->finish(bytes_, records());
  run.forecast_keys = std::move(forecast_keys_);
  return run;
}

// Notes the key of the last whole record of the newest block, once: when a merge has used that
// record up, it touches the next block.
void RunWriter::note_forecast() {
  const std::size_t at = forecast_keys_.size();
  if (at == blocks_ * keys_.bytes()) return;
  forecast_keys_.resize(at + keys_.bytes());
  keys_.make(to_ + bytes_ - record_bytes_, forecast_keys_.data() + at);
}

}}  // namespace vortex::v0
