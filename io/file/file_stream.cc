#include "io/file/file_stream.h"

#include <string>
#include <utility>

#include "io/file/any_order_stream.h"
#include "io/file/file_source.h"
#include "vortex/input_stream.h"

namespace vortex::inline v0 {
namespace {

FileSourceOptions source_options(const FileReaderOptions& options) {
  FileSourceOptions result;
  result.blocks_for_stream = options.comeback_blocks + 1;
  result.read_ahead = options.read_ahead;
  result.requests = {.request_bytes = options.request_bytes, .caching = options.caching};
  return result;
}

class ForwardFileStream final : public FileStream {
 public:
  ForwardFileStream(std::unique_ptr<FileSource> source, const InputStreamOptions& options)
      : source_(*source), stream_(std::move(source), options) {}

  Stream& stream() noexcept override { return stream_; }
  const std::byte* bytes() const noexcept override { return stream_.bytes(); }
  std::optional<std::uint64_t> length_bytes() const noexcept override {
    return stream_.length_bytes();
  }
  void prefault(std::uint64_t offset, std::size_t bytes) override {
    stream_.prefault(offset, bytes);
  }
  const std::byte* home_of(const void* at) noexcept override { return stream_.home_of(at); }
  const FileLayout& layout() const noexcept override { return source_.layout(); }
  FileSourceStatistics read_statistics() const noexcept override { return source_.statistics(); }

 private:
  FileSource& source_;  // the stream's
  InputStreamBase stream_;
};

class AnyOrderFileStream final : public FileStream {
 public:
  AnyOrderFileStream(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                     const FileReaderOptions& options, bool register_pool)
      : stream_(pool, std::move(layout), options, register_pool) {}

  Stream& stream() noexcept override { return stream_; }
  const std::byte* bytes() const noexcept override { return stream_.bytes(); }
  std::optional<std::uint64_t> length_bytes() const noexcept override {
    return stream_.length_bytes();
  }
  void prefault(std::uint64_t offset, std::size_t bytes) override {
    stream_.prefault(offset, bytes);
  }
  const std::byte* home_of(const void* at) noexcept override { return stream_.home_of(at); }
  const FileLayout& layout() const noexcept override { return stream_.layout(); }
  FileSourceStatistics read_statistics() const noexcept override {
    return stream_.read_statistics();
  }
  AnyOrderStatistics order_statistics() const noexcept override {
    return stream_.order_statistics();
  }

 private:
  AnyOrderStream stream_;
};

}  // namespace

bool reads_in_any_order(const FileReaderOptions& options, const FileLayout& layout) noexcept {
  return options.order == ReadOrder::kAny && AnyOrderStream::can_read(layout);
}

std::size_t file_stream_blocks(const FileReaderOptions& options, bool any_order,
                               std::size_t block_bytes, std::size_t unit_bytes) {
  return any_order ? AnyOrderStream::blocks_needed(options, block_bytes, unit_bytes)
                   : FileSource::blocks_needed(source_options(options), block_bytes, unit_bytes);
}

std::unique_ptr<FileStream> make_file_stream(BlockPool& pool, std::unique_ptr<FileLayout> layout,
                                             const FileReaderOptions& options, bool register_pool) {
  if (reads_in_any_order(options, *layout)) {
    return std::make_unique<AnyOrderFileStream>(pool, std::move(layout), options, register_pool);
  }
  FileSourceOptions for_source = source_options(options);
  for_source.requests.register_pool = register_pool;
  InputStreamOptions for_stream;
  for_stream.name = options.name.empty() ? layout->name() : options.name;
  for_stream.comeback_blocks = options.comeback_blocks;
  if (!layout->length()) for_stream.reserve_bytes = options.unknown_length_bytes;
  return std::make_unique<ForwardFileStream>(
      std::make_unique<FileSource>(pool, std::move(layout), for_source), for_stream);
}

}  // namespace vortex::inline v0
