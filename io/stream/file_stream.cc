#include "io/stream/file_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "io/array/any_order_stream.h"
#include "io/file/own_pool.h"
#include "io/stream/file_source.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/input_stream.h"

namespace vortex { inline namespace v0 {

namespace {

FileSourceOptions source_options(const FileReaderOptions& options) {
  FileSourceOptions result;
  result.blocks_for_stream = detail::saturating_sum(options.comeback_blocks, 1);
  result.read_ahead = options.read_ahead;
  result.requests = {.request_bytes = options.request_bytes, .caching = options.caching};
  return result;
}

// Passes on what all streams can do.
template <typename BytesStream>
class FileStreamOver : public FileStream {
 public:
  template <typename... Arguments>
  explicit FileStreamOver(Arguments&&... arguments)
      : stream_(std::forward<Arguments>(arguments)...) {}

  Stream& stream() noexcept final { return stream_; }
  const std::byte* bytes() const noexcept final { return stream_.bytes(); }
  std::optional<std::uint64_t> length_bytes() const noexcept final {
    return stream_.length_bytes();
  }
  void prefault(std::uint64_t offset, std::size_t bytes) final { stream_.prefault(offset, bytes); }
  const std::byte* home_of(const void* at) noexcept final { return stream_.home_of(at); }

 protected:
  BytesStream stream_;
};

class ForwardFileStream final : public FileStreamOver<InputStreamBase> {
 public:
  // `source` is the one that the stream owns.
  ForwardFileStream(const FileSource& source, std::unique_ptr<Source> owned,
                    const InputStreamOptions& options)
      : FileStreamOver(std::move(owned), options), source_(source) {}

  const FileLayout& layout() const noexcept override { return source_.layout(); }
  FileSourceStatistics read_statistics() const noexcept override { return source_.statistics(); }

 private:
  const FileSource& source_;
};

class AnyOrderFileStream final : public FileStreamOver<AnyOrderStream> {
 public:
  using FileStreamOver::FileStreamOver;

  void will_need(std::uint64_t offset, std::uint64_t bytes) override {
    stream_.will_need(offset, bytes);
  }
  const FileLayout& layout() const noexcept override { return stream_.layout(); }
  FileSourceStatistics read_statistics() const noexcept override {
    return stream_.read_statistics();
  }
  bool in_any_order() const noexcept override { return true; }
  AnyOrderStatistics order_statistics() const noexcept override {
    return stream_.order_statistics();
  }
};

}  // namespace

bool reads_in_any_order(const FileReaderOptions& options, const FileLayout& layout) noexcept {
  return options.order == ReadOrder::kAny && AnyOrderStream::can_read(layout);
}

std::size_t file_stream_blocks(const FileReaderOptions& options, bool any_order,
                               std::size_t block_bytes, std::size_t unit_bytes,
                               std::optional<std::uint64_t> length) {
  if (!any_order) {
    return FileSource::blocks_needed(source_options(options), block_bytes, unit_bytes, length);
  }
  const std::size_t needed = AnyOrderStream::blocks_needed(options, block_bytes, unit_bytes);
  if (!length) return needed;
  return AnyOrderStream::blocks_needed_for(*length, false, needed, block_bytes);
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
  if (const auto length = layout->length()) {
    // Refuses what no pool can have; what the file has no blocks for is left out.
    static_cast<void>(
        FileSource::blocks_needed(for_source, pool.block_bytes(), layout->unit_bytes(), length));
    const auto blocks = static_cast<std::size_t>(blocks_of_file(*length, pool.block_bytes()));
    for_source.read_ahead = std::min(for_source.read_ahead, blocks);
    for_source.blocks_for_stream = std::min(for_source.blocks_for_stream, blocks);
    for_stream.comeback_blocks = for_source.blocks_for_stream - 1;
  } else {
    for_stream.reserve_bytes = options.unknown_length_bytes;
  }
  auto source = std::make_unique<FileSource>(pool, std::move(layout), for_source);
  const FileSource& its_source = *source;
  return std::make_unique<ForwardFileStream>(its_source, std::move(source), for_stream);
}

}}  // namespace vortex::v0
