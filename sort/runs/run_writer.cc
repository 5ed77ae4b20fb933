#include "sort/runs/run_writer.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "sort/runs/run_sink.h"
#include "vortex/error.h"
#include "vortex/record_format.h"

namespace vortex::inline v0 {

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
      std::max<std::uint64_t>((most_bytes + block_bytes_ - 1) / block_bytes_, 1) * block_bytes_;
  options.least_reserve_bytes = options.reserve_bytes;
  stream_.emplace(std::make_unique<RunSink>(run_, window, write_behind), options);
  stop_.emplace(*stream_, stop);
  most_bytes_ = options.reserve_bytes;
  to_ = stream_->data();
}

std::span<std::byte> RunWriter::room(std::size_t most_bytes) {
  if (bytes_ + record_bytes_ > most_bytes_) {
    throw Error(EFBIG, "a run is longer than the " + format_bytes(most_bytes_) + " announced");
  }
  // Before the next block is touched: it may end the stay of the one before in memory.
  if (bytes_ + record_bytes_ > run_.slots.size() * block_bytes_) note_forecast();
  return {to_ + bytes_, room_in_block(bytes_, record_bytes_, block_bytes_, most_bytes)};
}

void RunWriter::written(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ <= run_.slots.size() * block_bytes_) return;
  // These records have begun a block. Its slot is found here because that may allocate, which the
  // sink, inside a fault, must not.
  const unsigned disk = run_.allocation.disk(run_.slots.size());
  run_.slots.push_back(Run::kFreed);
  run_.slots.back() = run_.store->take_slot(disk);
}

Run RunWriter::finish() {
  note_forecast();
  stream_->finish_bytes(bytes_);
  stop_.reset();
  stream_.reset();
  run_.bytes = bytes_;
  run_.records = records();
  return std::move(run_);
}

// Notes the key of the last whole record of the newest block, once: when a merge has used that
// record up, it touches the next block.
void RunWriter::note_forecast() {
  const std::size_t at = run_.forecast_keys.size();
  if (at == run_.slots.size() * keys_.bytes()) return;
  run_.forecast_keys.resize(at + keys_.bytes());
  keys_.make(to_ + bytes_ - record_bytes_, run_.forecast_keys.data() + at);
}

}  // namespace vortex::inline v0
