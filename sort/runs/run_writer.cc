#include "sort/runs/run_writer.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "io/stream/file_sink.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

std::size_t RunWriter::blocks_needed(std::size_t block_bytes, std::size_t record_bytes,
                                     std::size_t write_behind) noexcept {
  return blocks_for_records(block_bytes, record_bytes) + (write_behind > 0 ? write_behind : 1);
}

RunWriter::RunWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
                     std::uint64_t most_bytes, const std::stop_token& stop)
    : record_bytes_(order.record_bytes()),
      block_bytes_(store.block_bytes()),
      keys_(order),
      run_(store, most_bytes) {
  if (record_bytes_ == 0 || record_bytes_ > block_bytes_) {
    throw Error(EINVAL, "records of " + format_bytes(record_bytes_) + " do not fit in blocks of " +
                            format_bytes(block_bytes_));
  }
  const std::size_t window = blocks_for_records(block_bytes_, record_bytes_);
  OutputStreamOptions options;
  options.name = "run";
  options.gaps = Gaps::kUnspecified;  // every byte is written
  options.comeback_blocks = window - 1;
  options.reserve_bytes =
      std::max<std::uint64_t>(detail::units_for(most_bytes, block_bytes_), 1) * block_bytes_;
  options.least_reserve_bytes = options.reserve_bytes;
  FileSinkOptions for_sink;
  for_sink.blocks_for_stream = window;
  for_sink.write_behind = write_behind;
  stream_.emplace(
      std::make_unique<FileSink>(store.pool(), std::make_unique<RunLayout>(run_), for_sink),
      options);
  stop_.emplace(*stream_, stop);
  most_bytes_ = options.reserve_bytes;
  to_ = stream_->data();
}

std::span<std::byte> RunWriter::room(std::size_t most_bytes) {
  if (bytes_ + record_bytes_ > most_bytes_) {
    throw Error(EFBIG, "a run is longer than the " + format_bytes(most_bytes_) + " announced");
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
  stream_->finish_bytes(bytes_);
  stop_.reset();
  stream_.reset();
  run_.records = records();
  return std::move(run_);
}

// Notes the key of the last whole record of the newest block, once: when a merge has used that
// record up, it touches the next block.
void RunWriter::note_forecast() {
  const std::size_t at = run_.forecast_keys.size();
  if (at == blocks_ * keys_.bytes()) return;
  run_.forecast_keys.resize(at + keys_.bytes());
  keys_.make(to_ + bytes_ - record_bytes_, run_.forecast_keys.data() + at);
}

}}  // namespace vortex::v0
