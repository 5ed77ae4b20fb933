#include "lines/line_run.h"

#include <algorithm>
#include <utility>

namespace vortex::inline v0 {
namespace {

constexpr std::uint64_t kMaxMarks = 512;

// The most blocks that a record of so many bytes lies in.
std::size_t blocks_of_record(std::uint64_t bytes, std::size_t block_bytes) noexcept {
  return static_cast<std::size_t>((bytes + block_bytes - 1) / block_bytes) + 1;
}

}  // namespace

LineRunWriter::LineRunWriter(RunStore& store, const StoredOrder& order, RunPacking& packing,
                             std::size_t write_behind, std::uint64_t most_bytes,
                             const std::stop_token& stop)
    : order_(order),
      packing_(packing),
      mark_bytes_(std::max<std::uint64_t>(store.block_bytes(), most_bytes / kMaxMarks)),
      run_{.run = Run(store, most_bytes), .end = {}, .marks = {}, .packed = {}} {
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
    return;
  }
  char room[kRunPrefixBytes + 2 * kMaxLengthBytes];
  out_->append(room, static_cast<std::size_t>(write_head(room, head, stored) - room));
  out_->append(key);
  if (order_.has_keys) out_->append(stored.record);
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
  return std::move(run_);
}

FileReaderOptions RunCursor::reader_options(std::uint64_t longest, std::size_t read_ahead,
                                            std::size_t block_bytes) {
  FileReaderOptions options;
  // What a record shares is copied when the head of the next one has been read.
  options.comeback_blocks =
      blocks_of_record(longest + 2 * (kRunPrefixBytes + kMaxLengthBytes), block_bytes) - 1;
  options.read_ahead = read_ahead;
  options.request_bytes = block_bytes;
  options.order = ReadOrder::kForward;
  options.caching = Caching::kDirect;
  return options;
}

std::size_t RunCursor::blocks_needed(std::uint64_t longest, std::size_t read_ahead,
                                     std::size_t block_bytes) {
  return FileReaderBase::blocks_needed(reader_options(longest, read_ahead, block_bytes),
                                       block_bytes);
}

namespace {

FileReaderOptions with_pool(FileReaderOptions options, BlockPool& pool) {
  options.pool = &pool;
  return options;
}

}  // namespace

RunCursor::RunCursor(LineRun& run, const RunPart& part, const StoredOrder& order,
                     std::size_t read_ahead, bool punch_holes, BlockPacker& packer,
                     const std::stop_token& stop)
    : run_(run),
      punch_holes_(punch_holes),
      first_block_(part.begin.offset / run.run.store->block_bytes()),
      reader_(std::make_unique<UnpackingLayout>(
                  run.run, run.packed, packer, first_block_,
                  part.end.offset - first_block_ * run.run.store->block_bytes()),
              with_pool(reader_options(run.longest, read_ahead, run.run.store->block_bytes()),
                        run.run.store->pool())),
      stop_(reader_.stream(), stop),
      left_(part.end.records - part.begin.records),
      begin_(reinterpret_cast<const char*>(reader_.bytes())),
      at_(begin_ + (part.begin.offset - first_block_ * run.run.store->block_bytes())),
      free_from_(begin_ + run.run.store->block_bytes()),
      freed_(part.begin.offset == 0 ? 0 : first_block_ + 1),
      record_(order.has_keys) {
  record_.set_key_before(part.first_key);
}

void RunCursor::free_blocks() noexcept {
  const std::size_t block_bytes = run_.run.store->block_bytes();
  const auto block = static_cast<std::uint64_t>(at_ - begin_) / block_bytes;
  for (; freed_ < first_block_ + block; ++freed_) run_.run.free_block(freed_, punch_holes_);
  free_from_ = begin_ + (block + 1) * block_bytes;
}

}  // namespace vortex::inline v0
