#include "io/file_reader.h"

#include <algorithm>
#include <bit>

#include "io/single_file.h"
#include "vortex/error.h"

namespace vortex {
namespace {

constexpr std::size_t kSmallestChosenBlock = std::size_t{64} << 10;

// Small files do not need large pools.
std::size_t chosen_block_bytes(const FileLayout& layout, const FileReaderOptions& options) {
  if (options.block_bytes != 0) return options.block_bytes;
  const auto length = layout.length();
  if (!length || *length >= options.read_ahead * kDefaultBlockBytes) return kDefaultBlockBytes;
  const std::uint64_t share = *length / (options.read_ahead + 1) + 1;
  return std::clamp<std::size_t>(std::bit_ceil(share), kSmallestChosenBlock, kDefaultBlockBytes);
}

std::string name_of(int descriptor, const std::string& name) {
  return name.empty() ? "descriptor " + std::to_string(descriptor) : name;
}

}  // namespace

FileReaderBase::FileReaderBase(const std::string& path, const FileReaderOptions& options)
    : FileReaderBase(
          std::make_unique<SingleFile>(BlockFile::open(path, options.caching != Caching::kBuffered),
                                       options.disk),
          options) {}

FileReaderBase::FileReaderBase(int descriptor, const FileReaderOptions& options)
    : FileReaderBase(std::make_unique<SingleFile>(
                         BlockFile::borrow(descriptor, name_of(descriptor, options.name), false),
                         options.disk),
                     options) {}

FileReaderBase::FileReaderBase(std::unique_ptr<FileLayout> layout,
                               const FileReaderOptions& options) {
  FileSourceOptions for_source;
  for_source.blocks_for_stream = options.comeback_blocks + 1;
  for_source.read_ahead = options.read_ahead;
  for_source.request_bytes = options.request_bytes;
  for_source.caching = options.caching;
  InputStreamOptions for_stream;
  for_stream.name = options.name.empty() ? layout->name() : options.name;
  for_stream.comeback_blocks = options.comeback_blocks;
  pool_ = options.pool;
  if (pool_ == nullptr) {
    BlockPoolOptions for_pool;
    for_pool.block_bytes = chosen_block_bytes(*layout, options);
    for_pool.pool_bytes =
        for_pool.block_bytes *
        FileSource::blocks_needed(for_source, for_pool.block_bytes, layout->unit_bytes());
    for_pool.warming = Warming::kOnDemand;
    for_pool.name = "blocks of '" + layout->name() + "'";
    own_pool_ = std::make_unique<BlockPool>(for_pool);
    pool_ = own_pool_.get();
    for_source.register_pool = true;
  }
  if (layout->length() != 0) {
    const BlockFile& file = *layout->locate(0, pool_->block_bytes()).file;
    direct_ = file.direct_descriptor() >= 0 ? "direct I/O" : file.direct_refusal();
    if (direct_.empty()) direct_ = "not asked for";
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

}  // namespace vortex
