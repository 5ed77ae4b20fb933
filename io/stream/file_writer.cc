#include "vortex/file_writer.h"

#include <algorithm>

#include "io/file/own_pool.h"
#include "io/sequence/single_file.h"
#include "io/stream/file_sink.h"
#include "vortex/detail/stream/saturating.h"

namespace vortex { inline namespace v0 {

namespace {

std::size_t chosen_block_bytes(const FileWriterOptions& options) {
  if (options.block_bytes != 0) return options.block_bytes;
  if (options.expected_bytes == 0) return kDefaultBlockBytes;
  return block_bytes_for(options.expected_bytes, detail::saturating_sum(options.write_behind, 1));
}

BlockFile create(const std::string& path, const FileWriterOptions& options) {
  CreateOptions for_file;
  for_file.replace = options.replace;
  for_file.direct = options.caching != Caching::kBuffered;
  BlockFile file = BlockFile::create(path, for_file);
  file.allocate(options.expected_bytes);
  return file;
}

FileSinkOptions sink_options(const FileWriterOptions& options) {
  FileSinkOptions result;
  result.blocks_for_stream = detail::saturating_sum(options.comeback_blocks, 1);
  result.write_behind = options.write_behind;
  result.requests = {.request_bytes = options.request_bytes, .caching = options.caching};
  result.sync = options.sync;
  result.clear_blocks = options.gaps == Gaps::kZeros;
  return result;
}

}  // namespace

std::size_t FileWriterBase::blocks_needed(const FileWriterOptions& options,
                                          std::size_t block_bytes) {
  return FileSink::blocks_needed(sink_options(options), block_bytes);
}

FileWriterBase::FileWriterBase(const std::string& path, const FileWriterOptions& options)
    : FileWriterBase(std::make_unique<SingleFile>(create(path, options), options.disk), options) {}

FileWriterBase::FileWriterBase(int descriptor, const FileWriterOptions& options)
    : FileWriterBase(
          std::make_unique<SingleFile>(
              BlockFile::borrow(descriptor, descriptor_name(descriptor, options.name), true),
              options.disk),
          options) {}

FileWriterBase::FileWriterBase(std::unique_ptr<FileLayout> layout,
                               const FileWriterOptions& options) {
  FileSinkOptions for_sink = sink_options(options);
  OutputStreamOptions for_stream;
  for_stream.name = options.name.empty() ? layout->name() : options.name;
  for_stream.comeback_blocks = options.comeback_blocks;
  for_stream.reserve_bytes = options.reserve_bytes;
  for_stream.gaps = options.gaps;
  for_stream.least_reserve_bytes = std::min(options.least_reserve_bytes, options.reserve_bytes);
  pool_ = options.pool;
  if (pool_ == nullptr) {
    const std::size_t block_bytes = chosen_block_bytes(options);
    own_pool_ = make_own_pool(layout->name(), block_bytes,
                              FileSink::blocks_needed(for_sink, block_bytes, layout->unit_bytes()));
    pool_ = own_pool_.get();
  }
  for_sink.requests.register_pool = disks_may_know(*pool_, own_pool_ != nullptr);
  direct_ = direct_io_report(*layout->locate(0, pool_->block_bytes()).file);
  auto sink = std::make_unique<FileSink>(*pool_, std::move(layout), for_sink);
  sink_ = sink.get();
  stream_ = std::make_unique<OutputStreamBase>(std::move(sink), for_stream);
}

FileWriterBase& FileWriterBase::operator=(FileWriterBase&& other) noexcept {
  if (this == &other) return *this;
  stream_.reset();  // before the pool that it uses
  own_pool_ = std::move(other.own_pool_);
  pool_ = other.pool_;
  sink_ = other.sink_;
  direct_ = std::move(other.direct_);
  stream_ = std::move(other.stream_);
  return *this;
}

FileStatistics FileWriterBase::statistics() const {
  FileStatistics result;
  result.sink = sink_->statistics();
  for (const Disk* disk : sink_->layout().disks()) result.disks.push_back(disk->statistics());
  result.direct = direct_;
  result.pool_bytes = pool_->pool_bytes();
  return result;
}

}}  // namespace vortex::v0
