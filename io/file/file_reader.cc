#include "vortex/file_reader.h"

#include <cerrno>

#include "io/file/file_source.h"
#include "io/file/own_pool.h"
#include "io/file/single_file.h"
#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

std::size_t chosen_block_bytes(const FileLayout& layout, const FileReaderOptions& options) {
  if (options.block_bytes != 0) return options.block_bytes;
  const auto length = layout.length();
  if (!length || *length >= options.read_ahead * kDefaultBlockBytes) return kDefaultBlockBytes;
  return block_bytes_for(*length, options.read_ahead + 1);
}

FileSourceOptions source_options(const FileReaderOptions& options) {
  FileSourceOptions result;
  result.blocks_for_stream = options.comeback_blocks + 1;
  result.read_ahead = options.read_ahead;
  result.request_bytes = options.request_bytes;
  result.caching = options.caching;
  return result;
}

}  // namespace

std::size_t FileReaderBase::blocks_needed(const FileReaderOptions& options,
                                          std::size_t block_bytes) {
  return FileSource::blocks_needed(source_options(options), block_bytes);
}

FileReaderBase::FileReaderBase(const std::string& path, const FileReaderOptions& options)
    : FileReaderBase(
          std::make_unique<SingleFile>(BlockFile::open(path, options.caching != Caching::kBuffered),
                                       options.disk),
          options) {}

FileReaderBase::FileReaderBase(int descriptor, const FileReaderOptions& options)
    : FileReaderBase(
          std::make_unique<SingleFile>(
              BlockFile::borrow(descriptor, descriptor_name(descriptor, options.name), false),
              options.disk),
          options) {}

FileReaderBase::FileReaderBase(std::unique_ptr<FileLayout> layout,
                               const FileReaderOptions& options) {
  FileSourceOptions for_source = source_options(options);
  InputStreamOptions for_stream;
  for_stream.name = options.name.empty() ? layout->name() : options.name;
  for_stream.comeback_blocks = options.comeback_blocks;
  if (!layout->length()) for_stream.reserve_bytes = options.unknown_length_bytes;
  pool_ = options.pool;
  if (pool_ == nullptr) {
    const std::size_t block_bytes = chosen_block_bytes(*layout, options);
    own_pool_ =
        make_own_pool(layout->name(), block_bytes,
                      FileSource::blocks_needed(for_source, block_bytes, layout->unit_bytes()));
    pool_ = own_pool_.get();
    for_source.register_pool = true;
  }
  if (homes_can_be_registered(*pool_)) for_source.register_pool = true;
  if (layout->length() != 0) {
    direct_ = direct_io_report(*layout->locate(0, pool_->block_bytes()).file);
  }
  auto source = std::make_unique<FileSource>(*pool_, std::move(layout), for_source);
  source_ = source.get();
  stream_ = std::make_unique<InputStreamBase>(std::move(source), for_stream);
}

FileReaderStatistics FileReaderBase::statistics() const {
  FileReaderStatistics result;
  result.source = source_->statistics();
  for (const Disk* disk : source_->layout().disks()) result.disks.push_back(disk->statistics());
  result.direct = direct_;
  result.pool_bytes = pool_->pool_bytes();
  return result;
}

std::uint64_t FileReaderBase::known_length_bytes() const {
  if (const auto length = length_bytes()) return *length;
  throw Error(ESPIPE,
              "'" + stream_->name() + "' tells its length at its end, which has not been read yet");
}

}  // namespace vortex::inline v0
