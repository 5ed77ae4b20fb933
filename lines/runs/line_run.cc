#include "lines/runs/line_run.h"

#include <algorithm>
#include <utility>

namespace vortex { inline namespace v0 {

namespace {

constexpr std::uint64_t kMaxMarks = 512;
// A record that ends so near to the end of a block may be the last one in front of another.
constexpr std::uint64_t kNearEnd = std::uint64_t{4} << 10;

// The most blocks that a record of so many bytes lies in.
std::size_t blocks_of_record(std::uint64_t bytes, std::size_t block_bytes) noexcept {
  return static_cast<std::size_t>((bytes + block_bytes - 1) / block_bytes) + 1;
}

}  // namespace

LineRunWriter::LineRunWriter(RunStore& store, const StoredOrder& order, RunPacking& packing,
                             std::size_t write_behind, std::size_t forecast_bytes,
                             std::uint64_t most_bytes, const std::stop_token& stop)
    : order_(order),
      packing_(packing),
      mark_bytes_(std::max<std::uint64_t>(store.block_bytes(), most_bytes / kMaxMarks)),
      forecasts_(order, forecast_bytes, store.blocks_of(most_bytes)),
      run_{.run = Run(store, most_bytes), .end = {}, .marks = {}, .packed = {}, .forecasts = {}} {
  const std::size_t block_bytes = store.block_bytes();
  run_.marks.reserve(std::min(most_bytes / mark_bytes_, kMaxMarks) + 2);  // none later
  OutputStreamOptions options;
  options.name = "run";
  options.gaps = Gaps::kUnspecified;  // every byte is written
  options.comeback_blocks = 0;
  options.reserve_bytes = store.blocks_of(most_bytes) * block_bytes;
  options.least_reserve_bytes = options.reserve_bytes;
  FileSinkOptions for_sink;
  for_sink.blocks_for_stream = 1;
  for_sink.write_behind = write_behind;
  std::unique_ptr<RunLayout> layout;
  if (packing.may_pack()) {
    run_.packed.reserve(store.blocks_of(most_bytes));
    layout = std::make_unique<PackingLayout>(run_.run, run_.packed, packing);
  } else {
    layout = std::make_unique<RunLayout>(run_.run);
  }
  auto sink = std::make_unique<FileSink>(store.pool(), std::move(layout), for_sink);
  sink_ = sink.get();
  stream_.emplace(std::move(sink), options);
  stop_.emplace(*stream_, stop);
  out_.emplace(stream_->bytes(), block_bytes);
}

// Only where a quarter of the key is saved: whoever reads it has to put it together.
bool LineRunWriter::shares(const StoredRecord& stored, std::uint64_t in_common) noexcept {
  const std::size_t key_bytes = stored.key.size();
  const bool fits = key_bytes <= kMaxSharingKey;
  const bool before_fits = std::exchange(may_share_, fits);
  return fits && before_fits && in_common > 0 &&
         4 * shared_bytes(key_bytes, in_common) >= key_bytes;
}

void LineRunWriter::append(const StoredRecord& stored, std::uint64_t in_common,
                           std::uint64_t count) noexcept {
  if (out_->bytes() >= next_mark_) [[unlikely]]
    add_mark();
  run_.longest = std::max(run_.longest, stored_bytes(stored.key, stored.record, order_.has_keys));
  ++run_.end.records;
  run_.end.counted += count;
  run_.end.text_bytes += count * stored.record.size();
  const RunRecordHead head{in_common, count, shares(stored, in_common)};
  const std::size_t shared = head.sharing ? shared_bytes(stored.key.size(), in_common) : 0;
  const std::string_view key = stored.key.substr(shared);
  const std::size_t bytes =
      head.bytes() + stored_bytes(stored.key, stored.record, order_.has_keys) - shared;
  if (char* to = out_->piece(bytes)) [[likely]] {
    to = write_head(to, head, stored);
    to = copy_text(to, key);
    if (order_.has_keys) copy_text(to, stored.record);
    out_->used(bytes);
  } else {
    begin_blocks(stored, bytes);
    char room[kRunPrefixBytes + 2 * kMaxLengthBytes];
    out_->append(room, static_cast<std::size_t>(write_head(room, head, stored) - room));
    out_->append(key);
    if (order_.has_keys) out_->append(stored.record);
  }
  noted_ = out_->left_in_block() < near_;
  if (noted_) [[unlikely]]
    forecasts_.note(stored);
}

// The record, which is counted already, reaches into other blocks. Where the one before was not
// expected to be the last in front of them, its own key foretells nearly the same.
void LineRunWriter::begin_blocks(const StoredRecord& stored, std::size_t bytes) noexcept {
  if (!noted_ && run_.end.records > 1) forecasts_.note(stored);
  const std::uint64_t blocks = run_.run.store->blocks_of(out_->bytes() + bytes);
  for (; blocks_ < blocks; ++blocks_) {
    if (run_.end.records == 1) {
      forecasts_.add_first_block();
    } else {
      forecasts_.add_block();
    }
  }
  near_ = static_cast<std::size_t>(std::max(kNearEnd, 2 * run_.longest));
}

char* LineRunWriter::write_head(char* to, const RunRecordHead& head,
                                const StoredRecord& stored) const noexcept {
  to = head.write(to);
  if (order_.has_keys) to = write_length(to, stored.key.size());
  return write_length(to, stored.record.size());
}

void LineRunWriter::add_mark() noexcept {
  run_.end.offset = out_->bytes();
  run_.marks.push_back(run_.end);
  next_mark_ = run_.end.offset + mark_bytes_;
  may_share_ = false;  // for whoever begins here
}

LineRun LineRunWriter::finish() {
  run_.end.offset = out_->bytes();
  stream_->finish_bytes(out_->bytes());
  packing_.end_run(run_.run.bytes, run_.stored_bytes(), sink_->statistics().waited_ns);
  stop_.reset();
  stream_.reset();
  run_.run.records = run_.end.records;
  run_.forecasts = forecasts_.finish();
  return std::move(run_);
}

// What a record shares is copied when the head of the next one has been read.
std::size_t RunCursor::window_blocks(std::uint64_t longest, std::size_t block_bytes) noexcept {
  return blocks_of_record(longest + 2 * (kRunPrefixBytes + kMaxLengthBytes), block_bytes);
}

namespace {

InputStreamOptions stream_options(std::size_t window) {
  InputStreamOptions options;
  options.name = "a run";
  options.comeback_blocks = window - 1;
  return options;
}

}  // namespace

RunCursor::RunCursor(MergePrefetcher& prefetcher, std::uint32_t index, const RunPart& part,
                     std::uint64_t longest, const StoredOrder& order, const std::stop_token& stop)
    : block_bytes_(prefetcher.store().block_bytes()),
      stream_(std::make_unique<RunSource>(prefetcher, index, window_blocks(longest, block_bytes_)),
              stream_options(window_blocks(longest, block_bytes_))),
      stop_(stream_, stop),
      left_(part.end.records - part.begin.records),
      at_(stream_.data() + part.begin.offset % block_bytes_),
      next_block_(stream_.data()),
      record_(order.has_keys) {
  record_.set_key_before(part.first_key);
}

void RunCursor::touch_blocks() noexcept {
  for (; next_block_ < at_; next_block_ += block_bytes_) {
    (void)*static_cast<const volatile char*>(next_block_);
  }
}

}}  // namespace vortex::v0
