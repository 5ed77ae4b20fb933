#include "lines/line_run.h"

#include <algorithm>
#include <utility>

#include "io/file/file_sink.h"
#include "io/file/spread_sequence.h"

namespace vortex::inline v0 {
namespace {

constexpr std::uint64_t kMaxMarks = 512;

// The most blocks that a record of so many bytes lies in.
std::size_t blocks_of_record(std::uint64_t bytes, std::size_t block_bytes) noexcept {
  return static_cast<std::size_t>((bytes + block_bytes - 1) / block_bytes) + 1;
}

}  // namespace

LineRunWriter::LineRunWriter(RunStore& store, const StoredOrder& order, std::size_t write_behind,
                             std::uint64_t most_bytes, const std::stop_token& stop)
    : order_(order),
      mark_bytes_(std::max<std::uint64_t>(store.block_bytes(), most_bytes / kMaxMarks)),
      run_{.run = Run(store, most_bytes), .end = {}, .marks = {}} {
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
  stream_.emplace(
      std::make_unique<FileSink>(store.pool(), std::make_unique<RunLayout>(run_.run), for_sink),
      options);
  stop_.emplace(*stream_, stop);
  out_.emplace(stream_->bytes(), block_bytes);
}

namespace {

// The lowest bit of the first number says whether there is a second.
std::uint64_t first_number(std::uint64_t in_common, std::uint64_t count) noexcept {
  return in_common << 1 | (count != 1 ? 1 : 0);
}

std::size_t prefix_bytes(std::uint64_t in_common, std::uint64_t count) noexcept {
  return length_bytes(first_number(in_common, count)) + (count != 1 ? length_bytes(count) : 0);
}

char* write_prefix(char* to, std::uint64_t in_common, std::uint64_t count) noexcept {
  to = write_length(to, first_number(in_common, count));
  return count != 1 ? write_length(to, count) : to;
}

}  // namespace

void LineRunWriter::append(const StoredRecord& stored, std::uint64_t in_common,
                           std::uint64_t count) noexcept {
  if (out_->bytes() >= next_mark_) [[unlikely]]
    add_mark();
  const std::uint64_t stored_in_all = stored_bytes(stored.key, stored.record, order_.has_keys);
  run_.longest = std::max(run_.longest, stored_in_all);
  ++run_.end.records;
  run_.end.counted += count;
  run_.end.text_bytes += count * stored.record.size();
  const std::size_t bytes = prefix_bytes(in_common, count) + stored_in_all;
  if (char* to = out_->piece(bytes)) [[likely]] {
    to = write_prefix(to, in_common, count);
    if (order_.has_keys) to = write_length(to, stored.key.size());
    to = write_length(to, stored.record.size());
    if (order_.has_keys) to = copy_text(to, stored.key);
    copy_text(to, stored.record);
    out_->used(bytes);
    return;
  }
  char head[kRunPrefixBytes + 2 * kMaxLengthBytes];
  char* end = write_prefix(head, in_common, count);
  if (order_.has_keys) end = write_length(end, stored.key.size());
  end = write_length(end, stored.record.size());
  out_->append(head, static_cast<std::size_t>(end - head));
  if (order_.has_keys) out_->append(stored.key);
  out_->append(stored.record);
}

void LineRunWriter::add_mark() noexcept {
  run_.end.offset = out_->bytes();
  run_.marks.push_back(run_.end);
  next_mark_ = run_.end.offset + mark_bytes_;
}

LineRun LineRunWriter::finish() {
  run_.end.offset = out_->bytes();
  stream_->finish_bytes(out_->bytes());
  stop_.reset();
  stream_.reset();
  run_.run.records = run_.end.records;
  return std::move(run_);
}

FileReaderOptions RunCursor::reader_options(std::uint64_t longest, std::size_t read_ahead,
                                            std::size_t block_bytes) {
  FileReaderOptions options;
  options.comeback_blocks = blocks_of_record(longest + kRunPrefixBytes, block_bytes) - 1;
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
                     std::size_t read_ahead, bool punch_holes, const std::stop_token& stop)
    : run_(run),
      order_(order),
      punch_holes_(punch_holes),
      first_block_(part.begin.offset / run.run.store->block_bytes()),
      reader_(std::make_unique<SpreadLayout>(
                  run.run.places, "a run",
                  part.end.offset - first_block_ * run.run.store->block_bytes(), first_block_),
              with_pool(reader_options(run.longest, read_ahead, run.run.store->block_bytes()),
                        run.run.store->pool())),
      stop_(reader_.stream(), stop),
      left_(part.end.records - part.begin.records),
      begin_(reinterpret_cast<const char*>(reader_.bytes())),
      at_(begin_ + (part.begin.offset - first_block_ * run.run.store->block_bytes())),
      free_from_(begin_ + run.run.store->block_bytes()),
      freed_(part.begin.offset == 0 ? 0 : first_block_ + 1) {}

void RunCursor::free_blocks() noexcept {
  const std::size_t block_bytes = run_.run.store->block_bytes();
  const auto block = static_cast<std::uint64_t>(at_ - begin_) / block_bytes;
  for (; freed_ < first_block_ + block; ++freed_) run_.run.free_block(freed_, punch_holes_);
  free_from_ = begin_ + (block + 1) * block_bytes;
}

}  // namespace vortex::inline v0
