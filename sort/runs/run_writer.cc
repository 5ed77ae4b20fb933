#include "sort/runs/run_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

RunStream::RunStream(RunStore& store, const Options& options)
    : most_bytes_(store.blocks_of(options.most_bytes) * store.block_bytes()),
      packing_(options.packing),
      run_(store, options.most_bytes, options.expected_bytes),
      placed_beforehand_(options.blocks != 0 && run_.place_beforehand(options.blocks)) {
  FileSinkOptions for_sink;
  for_sink.blocks_for_stream = options.window_blocks;
  for_sink.write_behind = options.write_behind;
  auto sink = std::make_unique<FileSink>(
      store.pool(),
      std::make_unique<RunLayout>(run_, packing_, placed_beforehand_ ? options.parts : nullptr),
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
  run_.stored.end();
  return std::move(run_);
}

std::size_t RunWriter::blocks_needed(std::size_t block_bytes, std::size_t record_bytes,
                                     std::size_t write_behind) noexcept {
  return blocks_for_records(block_bytes, record_bytes) + (write_behind > 0 ? write_behind : 1);
}

RunOutput::RunOutput(const RecordOrder& order, std::size_t block_bytes)
    : record_bytes_(order.record_bytes()), block_bytes_(block_bytes), keys_(order) {
  if (record_bytes_ == 0 || record_bytes_ > block_bytes_) {
    throw Error(EINVAL, "records of " + format_bytes(record_bytes_) + " do not fit in blocks of " +
                            format_bytes(block_bytes_));
  }
}

void RunOutput::append_forecast(const std::byte* record) {
  const std::size_t at = forecast_keys_.size();
  forecast_keys_.resize(at + keys_.bytes());
  keys_.make(record, forecast_keys_.data() + at);
}

RunWriter::RunWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
                     std::uint64_t most_bytes, RunPacking* packing, const std::stop_token& stop,
                     std::uint64_t expected_bytes, std::size_t wide)
    : RunOutput(order, store.block_bytes()),
      wide_(write_behind == 0 ? 0 : std::min(wide, write_behind - 1)) {
  stream_.emplace(
      store,
      RunStream::Options{.window_blocks = blocks_for_records(block_bytes_, record_bytes_) + wide_,
                         .write_behind = write_behind - wide_,
                         .most_bytes = most_bytes,
                         .expected_bytes = expected_bytes,
                         .packing = packing,
                         .stop = stop});
  to_ = stream_->bytes();
}

std::span<std::byte> RunWriter::room(std::size_t most_bytes) {
  const std::uint64_t most = stream_->most_bytes();
  if (bytes_ + record_bytes_ > most) {
    throw Error(EFBIG, "a run is longer than the " + format_bytes(most) + " announced");
  }
  return room_in_blocks(to_, bytes_, record_bytes_, block_bytes_, wide_,
                        std::min<std::uint64_t>(most - bytes_, most_bytes));
}

// When a merge has used up the last whole record of a block, it touches the next one.
void RunWriter::written(std::size_t bytes) {
  bytes_ += bytes;
  for (;;) {
    const std::uint64_t end = (blocks_noted() + 1) * block_bytes_ / record_bytes_ * record_bytes_;
    if (end > bytes_) break;
    note_forecast(end);
  }
}

Run RunWriter::finish() {
  if (blocks_noted() * block_bytes_ < bytes_) note_forecast(bytes_);
  Run run = stream_->finish(bytes_, records());
  run.forecast_keys = std::move(forecast_keys_);
  return run;
}

// The key of the record that ends there, before the stay of its block in memory ends.
void RunWriter::note_forecast(std::uint64_t end) { append_forecast(to_ + end - record_bytes_); }

KeptBlocks::KeptBlocks(BlockPool& pool, std::size_t count, const char* what_for)
    : quota_(pool, count, count, what_for) {
  blocks_.reserve(count);
  while (blocks_.size() < count) {
    const BlockGrant grant = quota_.try_take();
    if (grant.error != 0) {
      give_back();
      throw Error(grant.error, "memory for a block of a run");
    }
    blocks_.push_back(grant.block);
  }
}

void KeptBlocks::give_back() noexcept {
  if (quota_.pool().inherited()) return;
  for (const Block block : blocks_) quota_.give_back(block);
}

namespace {

std::size_t head_bytes(std::uint64_t begin, std::size_t block_bytes) noexcept {
  return static_cast<std::size_t>(detail::round_up(begin, block_bytes) - begin);
}

}  // namespace

RunPartWriter::RunPartWriter(const RecordOrder& order, RunStore& store, std::size_t write_behind,
                             std::uint64_t begin, std::uint64_t end, RunPacking* packing,
                             const std::stop_token& stop)
    : RunOutput(order, store.block_bytes()),
      kept_(store.pool(), kBlocksForHead, "the head of a part of a run"),
      head_(kept_.bytes(0), head_bytes(begin, block_bytes_)),
      in_two_(record_bytes_),
      stream_(store, {.window_blocks = blocks_for_records(block_bytes_, record_bytes_),
                      .write_behind = write_behind,
                      .most_bytes = detail::round_up(end, block_bytes_) - begin - head_.size(),
                      .packing = packing,
                      .stop = stop}),
      to_(stream_.bytes(), record_bytes_, block_bytes_, head_) {}

void RunPartWriter::written(std::size_t bytes) {
  to_.written(bytes);
  bytes_ += bytes;
  note_forecasts();
}

// Of the blocks that are full, in which a record ends each.
void RunPartWriter::note_forecasts() {
  for (;;) {
    const std::uint64_t end_of_block = head_.size() + (blocks_noted() + 1) * block_bytes_;
    const std::uint64_t end = end_of_block / record_bytes_ * record_bytes_;
    if (end > bytes_) break;
    note_forecast(end);
  }
}

// The key of the record that ends there, and may begin in the head.
void RunPartWriter::note_forecast(std::uint64_t end) {
  const std::uint64_t behind_head = end - head_.size();
  const std::byte* record = in_two_.data();
  if (behind_head < record_bytes_) {
    const auto in_head = record_bytes_ - static_cast<std::size_t>(behind_head);
    std::memcpy(in_two_.data(), head_.last(in_head).data(), in_head);
    std::memcpy(in_two_.data() + in_head, stream_.bytes(), behind_head);
  } else {
    record = stream_.bytes() + behind_head - record_bytes_;
  }
  append_forecast(record);
}

Run RunPartWriter::finish_before(std::span<const std::byte> head) {
  const std::uint64_t records = bytes_ / record_bytes_;
  guarded([&] {
    if (!head.empty()) {
      std::memcpy(stream_.bytes() + bytes_ - head_.size(), head.data(), head.size());
    }
    bytes_ += head.size();
    note_forecasts();
    if (head_.size() + blocks_noted() * block_bytes_ < bytes_) note_forecast(bytes_);
  }).throw_if_failed();
  Run run = stream_.finish(bytes_ - head_.size(), records);
  run.forecast_keys = std::move(forecast_keys_);
  return run;
}

Run run_of_parts(std::span<const std::unique_ptr<RunPartWriter>> parts) {
  std::vector<Run> runs;
  std::size_t forecast_bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    runs.push_back(parts[i]->finish_before(i + 1 < parts.size() ? parts[i + 1]->head()
                                                                : std::span<const std::byte>{}));
    forecast_bytes += runs.back().forecast_keys.size();
  }
  std::vector<std::byte> forecast_keys;
  forecast_keys.reserve(forecast_bytes);
  for (Run& run : runs) {
    const std::vector<std::byte> of_part = std::exchange(run.forecast_keys, {});
    forecast_keys.insert(forecast_keys.end(), of_part.begin(), of_part.end());
  }
  Run run = std::move(runs.front());
  run.append(std::span(runs).subspan(1));
  run.forecast_keys = std::move(forecast_keys);
  return run;
}

FallingRunWriter::FallingRunWriter(const RecordOrder& order, RunStore& store,
                                   std::size_t write_behind, std::uint64_t most_bytes,
                                   std::uint64_t whole_bytes, RunPacking* packing,
                                   const std::stop_token& stop, std::uint64_t expected_bytes,
                                   std::size_t wide)
    : RunOutput(order, store.block_bytes()),
      whole_blocks_(whole_bytes == 0 ? 0 : store.blocks_of(whole_bytes)),
      last_lacks_(static_cast<std::size_t>(whole_blocks_ * block_bytes_ - whole_bytes)),
      wide_(std::min(wide, write_behind - kBlocksKept - 1)),
      blocks_kept_(store.pool(), kBlocksKept, "a run that falls"),
      kept_bytes_(last_lacks_),
      lacking_(last_lacks_),
      in_two_(record_bytes_) {
  std::memset(blocks_kept_.bytes(keeping_), 0, block_bytes_);
  stream_.emplace(
      store,
      RunStream::Options{.window_blocks = blocks_for_records(block_bytes_, record_bytes_) + wide_,
                         .write_behind = write_behind - kBlocksKept - wide_,
                         .most_bytes = most_bytes + block_bytes_,
                         .expected_bytes = expected_bytes,
                         .packing = packing,
                         .parts = &parts_,
                         .blocks = whole_blocks_,
                         .stop = stop});
  to_ = stream_->bytes();
}

void FallingRunWriter::begin_part(std::size_t bytes) {
  const std::size_t all = bytes + kept_bytes_;
  const std::size_t blocks = all / block_bytes_;
  fills_blocks_ = blocks != 0;
  left_ = bytes;
  keeps_next_ = all % block_bytes_;
  to_keep_ = fills_blocks_ ? keeps_next_ : bytes;
  keep_at_ =
      blocks_kept_.bytes(fills_blocks_ ? 1 - keeping_ : keeping_) + block_bytes_ - keeps_next_;
  if (fills_blocks_) add_blocks(blocks);
}

void FallingRunWriter::add_blocks(std::uint64_t blocks) {
  parts_.add(blocks);
  const std::uint64_t most =
      stream_->placed_beforehand() ? whole_blocks_ : stream_->most_bytes() / block_bytes_;
  if (parts_.blocks() <= most) return;
  throw Error(EFBIG,
              "a run is longer than the " + format_bytes(most * block_bytes_) + " announced");
}

std::span<std::byte> FallingRunWriter::room(std::size_t most_bytes) {
  most_bytes = std::min(most_bytes, left_);
  if (to_keep_ >= record_bytes_) {
    room_ = {keep_at_, std::min(most_bytes, to_keep_ / record_bytes_ * record_bytes_)};
  } else if (to_keep_ != 0) {
    room_ = in_two_;
  } else {
    if (bytes_ + record_bytes_ > blocks_ * block_bytes_) note_forecast(last_);
    room_ = room_in_blocks(to_, bytes_, record_bytes_, block_bytes_, wide_, most_bytes);
  }
  return room_;
}

void FallingRunWriter::written(std::size_t bytes) {
  left_ -= bytes;
  records_ += bytes / record_bytes_;
  last_ = room_.data() + bytes - record_bytes_;
  if (to_keep_ >= record_bytes_) {
    keep_at_ += bytes;
    to_keep_ -= bytes;
  } else if (to_keep_ != 0) {
    const std::size_t behind = record_bytes_ - to_keep_;
    std::memcpy(keep_at_, in_two_.data(), to_keep_);
    std::memcpy(to_ + bytes_, in_two_.data() + to_keep_, behind);
    to_keep_ = 0;
    bytes_ += behind;
    if (bytes_ > blocks_ * block_bytes_) ++blocks_;
  } else {
    enter_blocks(room_.data(), bytes);
    bytes_ += bytes;
  }
  if (left_ == 0) end_part();
}

// Of each block but the last that the records go to: room() has noted the newest one, unless the
// next record ended in it.
void FallingRunWriter::enter_blocks(const std::byte* records, std::size_t bytes) {
  for (; bytes_ + bytes > blocks_ * block_bytes_; ++blocks_) {
    const auto here = static_cast<std::size_t>(blocks_ * block_bytes_ - bytes_);
    const std::size_t whole = here - here % record_bytes_;
    if (whole != 0) note_forecast(records + whole - record_bytes_);
  }
}

// What was kept is behind the part, in the last of its blocks.
void FallingRunWriter::end_part() {
  if (fills_blocks_) {
    std::memcpy(to_ + bytes_, kept(), kept_bytes_);
    bytes_ += kept_bytes_;
    note_forecast_of_kept(last_);
    keeping_ = 1 - keeping_;
    lacking_ = 0;
  }
  kept_bytes_ = keeps_next_;
}

// Of the newest block, once: the key of the last record that ends in it.
void FallingRunWriter::note_forecast(const std::byte* record) {
  if (blocks_noted() != blocks_) append_forecast(record);
}

// The same, where its end was kept; the record before that ends where it begins.
void FallingRunWriter::note_forecast_of_kept(const std::byte* record_before) {
  const std::size_t whole = (kept_bytes_ - lacking_) / record_bytes_ * record_bytes_;
  note_forecast(whole == 0 ? record_before : kept() + whole - record_bytes_);
}

// Where less than a record is left, this record is what was put into two blocks last.
Run FallingRunWriter::finish() {
  std::size_t skipped = 0;
  if (kept_bytes_ != lacking_) {
    skipped = block_bytes_ - kept_bytes_;
    add_blocks(1);
    guarded([&] {
      std::memset(to_ + bytes_, 0, skipped);
      std::memcpy(to_ + bytes_ + skipped, kept(), kept_bytes_);
    }).throw_if_failed();
    bytes_ += block_bytes_;
    ++blocks_;
    note_forecast_of_kept(in_two_.data());
  }
  const bool placed_beforehand = stream_->placed_beforehand();
  Run run = stream_->finish(bytes_, records_);
  run.bytes -= last_lacks_;
  run.skipped = skipped;
  run.forecast_keys = std::move(forecast_keys_);
  run.arrange(parts_, placed_beforehand);
  return run;
}

}}  // namespace vortex::v0
