#include "vortex/file_reader.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "io/array/any_order_stream.h"
#include "io/file/own_pool.h"
#include "io/sequence/single_file.h"
#include "io/stream/file_source.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/input_stream.h"
#include "vortex/stream/stream_calls.h"

namespace vortex { inline namespace v0 {

namespace {

FileSourceOptions source_options(const FileReaderOptions& options) {
  FileSourceOptions result;
  result.blocks_for_stream = detail::saturating_sum(options.comeback_blocks, 1);
  result.read_ahead = options.read_ahead;
  result.requests = {.request_bytes = options.request_bytes, .caching = options.caching};
  return result;
}

bool reads_in_any_order(const FileReaderOptions& options, const FileLayout& layout) noexcept {
  return options.order == ReadOrder::kAny && AnyOrderStream::can_read(layout);
}

// Where the length of the file is known, never more than it has.
std::size_t blocks_for(const FileReaderOptions& options, bool any_order, std::size_t block_bytes,
                       std::size_t unit_bytes = 0, std::optional<std::uint64_t> length = {}) {
  if (any_order) return AnyOrderStream::blocks_needed(options, block_bytes, unit_bytes, 0, length);
  return FileSource::blocks_needed(source_options(options), block_bytes, unit_bytes, length);
}

std::size_t chosen_block_bytes(const FileLayout& layout, const FileReaderOptions& options) {
  if (options.block_bytes != 0) return options.block_bytes;
  const auto length = layout.length();
  const bool any_order = reads_in_any_order(options, layout);
  const std::size_t largest = any_order ? kAnyOrderBlockBytes : kDefaultBlockBytes;
  const std::size_t block_bytes =
      !length || *length >= detail::saturating_product(options.read_ahead, largest)
          ? largest
          : block_bytes_for(*length, detail::saturating_sum(options.read_ahead, 1), largest);
  if (options.memory_bytes == 0 || !any_order) return block_bytes;
  return block_bytes_within(options.memory_bytes, block_bytes, [&](std::size_t bytes) {
    return blocks_for(options, true, bytes, layout.unit_bytes());
  });
}

}  // namespace

struct FileReaderBase::State {
  std::unique_ptr<BlockPool> own_pool;
  BlockPool* pool = nullptr;
  std::string direct;
  bool allow_rest = false;
  // One of the two; `source` is that of the stream that goes forward.
  std::unique_ptr<AnyOrderStream> any_order;
  std::unique_ptr<InputStreamBase> forward;
  const FileSource* source = nullptr;

  void open(std::unique_ptr<FileLayout> layout, const FileReaderOptions& options,
            bool register_pool);
  // Calls what both kinds of streams have.
  template <typename Call>
  decltype(auto) on_stream(Call call) const {
    return any_order != nullptr ? call(*any_order) : call(*forward);
  }
  Stream& stream() const noexcept {
    return on_stream([](auto& one) -> Stream& { return one; });
  }
  const FileLayout& layout() const noexcept {
    return any_order != nullptr ? any_order->layout() : source->layout();
  }
};

void FileReaderBase::State::open(std::unique_ptr<FileLayout> layout,
                                 const FileReaderOptions& options, bool register_pool) {
  if (reads_in_any_order(options, *layout)) {
    any_order = std::make_unique<AnyOrderStream>(*pool, std::move(layout), options, register_pool);
    return;
  }
  FileSourceOptions for_source = source_options(options);
  for_source.requests.register_pool = register_pool;
  InputStreamOptions for_stream;
  for_stream.name = options.name.empty() ? layout->name() : options.name;
  for_stream.comeback_blocks = options.comeback_blocks;
  if (const auto length = layout->length()) {
    // Refuses what no pool can have; what the file has no blocks for is left out.
    static_cast<void>(
        FileSource::blocks_needed(for_source, pool->block_bytes(), layout->unit_bytes(), length));
    const auto blocks = static_cast<std::size_t>(blocks_of_file(*length, pool->block_bytes()));
    for_source.read_ahead = std::min(for_source.read_ahead, blocks);
    for_source.blocks_for_stream = std::min(for_source.blocks_for_stream, blocks);
    for_stream.comeback_blocks = for_source.blocks_for_stream - 1;
  } else {
    for_stream.reserve_bytes = options.unknown_length_bytes;
  }
  auto owned = std::make_unique<FileSource>(*pool, std::move(layout), for_source);
  source = owned.get();
  forward = std::make_unique<InputStreamBase>(std::move(owned), for_stream);
}

std::size_t FileReaderBase::blocks_needed(const FileReaderOptions& options,
                                          std::size_t block_bytes) {
  return blocks_for(options, options.order == ReadOrder::kAny, block_bytes);
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

FileReaderBase::FileReaderBase(std::unique_ptr<FileLayout> layout, const FileReaderOptions& options)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  const std::optional<std::uint64_t> length = layout->length();
  const std::uint64_t file_bytes = length.value_or(std::numeric_limits<std::uint64_t>::max());
  s.allow_rest = options.allow_rest;
  s.pool = options.pool;
  if (s.pool == nullptr) {
    const std::size_t block_bytes = chosen_block_bytes(*layout, options);
    s.own_pool = make_own_pool(layout->name(), block_bytes,
                               blocks_for(options, reads_in_any_order(options, *layout),
                                          block_bytes, layout->unit_bytes(), length),
                               file_bytes);
    s.pool = s.own_pool.get();
  }
  if (length != 0) s.direct = direct_io_report(*layout->locate(0, s.pool->block_bytes()).file);
  s.open(std::move(layout), options, disks_may_know(*s.pool, s.own_pool != nullptr, file_bytes));
  bytes_ = s.on_stream([](auto& stream) { return stream.bytes(); });
}

FileReaderBase::FileReaderBase(FileReaderBase&&) noexcept = default;

FileReaderBase& FileReaderBase::operator=(FileReaderBase&&) noexcept = default;

FileReaderBase::~FileReaderBase() = default;

std::optional<std::uint64_t> FileReaderBase::length_bytes() const noexcept {
  return state_->on_stream(
      [](auto& stream) -> std::optional<std::uint64_t> { return stream.length_bytes(); });
}

std::uint64_t FileReaderBase::readable_bytes(std::uint64_t offset) const {
  return vortex::readable_bytes(*this, state_->stream().reserved_bytes(), block_bytes(), offset);
}

void FileReaderBase::will_need_bytes(std::uint64_t offset, std::uint64_t bytes) {
  if (state_->any_order != nullptr) state_->any_order->will_need(offset, bytes);
}

void FileReaderBase::prefault(std::uint64_t offset, std::size_t bytes) {
  state_->on_stream([&](auto& stream) { stream.prefault(offset, bytes); });
}

const std::byte* FileReaderBase::home_of(const void* at) noexcept {
  return state_->on_stream([&](auto& stream) { return stream.home_of(at); });
}

Stream& FileReaderBase::stream() noexcept { return state_->stream(); }

std::size_t FileReaderBase::block_bytes() const noexcept { return state_->pool->block_bytes(); }

FileStatistics FileReaderBase::statistics() const {
  const AnyOrderStream* const any_order = state_->any_order.get();
  FileStatistics result;
  result.source =
      any_order != nullptr ? any_order->read_statistics() : state_->source->statistics();
  if (any_order != nullptr) result.any_order = any_order->order_statistics();
  for (const Disk* disk : state_->layout().disks()) result.disks.push_back(disk->statistics());
  result.direct = state_->direct;
  result.pool_bytes = state_->pool->pool_bytes();
  result.advice = reread_advice(result.source, result.any_order, result.pool_bytes);
  return result;
}

std::uint64_t FileReaderBase::known_length_bytes() const {
  if (const auto length = length_bytes()) return *length;
  throw Error(ESPIPE, "'" + state_->stream().name() +
                          "' tells its length at its end, which has not been read yet");
}

void FileReaderBase::expect_whole_elements(std::size_t element_bytes) const {
  const auto length = length_bytes();
  if (length && !state_->allow_rest)
    vortex::expect_whole_elements(state_->stream().name(), *length, element_bytes);
}

std::uint64_t FileReaderBase::any_order_bytes() const {
  const std::uint64_t bytes = known_length_bytes();
  if (bytes <= block_bytes() || state_->any_order != nullptr) return bytes;
  throw Error(EINVAL, "'" + state_->stream().name() +
                          "' is read forward: its array is no range, of which algorithms look at "
                          "the end first; read data() in a loop, or with ReadOrder::kAny");
}

void write_from_stream(int descriptor, FileReaderBase& reader, std::uint64_t offset,
                       std::uint64_t bytes) {
  write_in_parts(descriptor, reader, reader.stream().name(), reader.block_bytes(), offset, bytes);
}

}}  // namespace vortex::v0
