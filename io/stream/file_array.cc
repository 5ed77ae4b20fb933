#include "vortex/file_array.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "io/array/any_order_stream.h"
#include "io/file/own_pool.h"
#include "io/sequence/single_file.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

FileReaderOptions reader_options(const FileArrayOptions& options) {
  return {.block_bytes = options.block_bytes,
          .comeback_blocks = options.comeback_blocks,
          .read_ahead = options.read_ahead,
          .request_bytes = options.request_bytes,
          .memory_bytes = options.memory_bytes,
          .cursors = options.cursors,
          .caching = options.caching,
          .name = options.name};
}

std::size_t chosen_block_bytes(std::uint64_t length, const FileArrayOptions& options) {
  if (options.block_bytes != 0) return options.block_bytes;
  // A file that is empty is going to grow.
  const std::size_t block_bytes =
      length == 0 ? kAnyOrderBlockBytes
                  : block_bytes_for(length, detail::saturating_sum(options.read_ahead, 1),
                                    kAnyOrderBlockBytes);
  if (options.memory_bytes == 0) return block_bytes;
  return block_bytes_within(options.memory_bytes, block_bytes, [&](std::size_t bytes) {
    return FileArrayBase::blocks_needed(options, bytes);
  });
}

}  // namespace

struct FileArrayBase::State {
  std::unique_ptr<BlockPool> own_pool;
  BlockPool* pool = nullptr;
  BlockFile* file = nullptr;  // the stream's
  std::string direct;
  bool allow_rest = false;
  std::unique_ptr<AnyOrderStream> stream;
  // A sync tells of an error once, and whoever asks next must hear of it, too.
  std::mutex sync_mutex;
  bool sync_failed = false;

  void sync() {
    std::lock_guard lock(sync_mutex);
    if (sync_failed) {
      throw Error(EIO, "'" + file->name() +
                           "': an earlier sync failed: what was written before may not be on the "
                           "disk");
    }
    try {
      file->sync();
    } catch (...) {
      sync_failed = true;
      throw;
    }
  }
};

std::size_t FileArrayBase::blocks_needed(const FileArrayOptions& options, std::size_t block_bytes) {
  return AnyOrderStream::blocks_needed(reader_options(options), block_bytes, 0,
                                       options.write_behind);
}

FileArrayBase::FileArrayBase(const std::string& path, const FileArrayOptions& options)
    : state_(std::make_unique<State>()) {
  // Before a file is made.
  static_cast<void>(blocks_needed(options, kAnyOrderBlockBytes));
  State& s = *state_;
  auto layout = std::make_unique<SingleFile>(
      BlockFile::open_to_change(path, options.make, options.caching != Caching::kBuffered),
      options.disk);
  s.file = &layout->file();
  s.allow_rest = options.allow_rest;
  s.direct = direct_io_report(*s.file);
  s.pool = options.pool;
  if (s.pool == nullptr) {
    const std::size_t block_bytes = chosen_block_bytes(s.file->length(), options);
    s.own_pool =
        make_own_pool(path, block_bytes, blocks_needed(options, block_bytes), s.file->length());
    s.pool = s.own_pool.get();
  }
  s.stream = std::make_unique<AnyOrderStream>(
      *s.pool, std::move(layout), reader_options(options),
      disks_may_know(*s.pool, s.own_pool != nullptr, s.file->length()),
      ChangeOptions{.write_behind = options.write_behind, .reserve_bytes = options.reserve_bytes});
  bytes_ = const_cast<std::byte*>(s.stream->bytes());
}

FileArrayBase::FileArrayBase(FileArrayBase&&) noexcept = default;

FileArrayBase::~FileArrayBase() = default;

std::uint64_t FileArrayBase::length_bytes() const noexcept {
  return state_->stream->length_bytes();
}

void FileArrayBase::resize_bytes(std::uint64_t length) {
  BlockPool* const pool = state_->own_pool.get();
  if (pool != nullptr && length > length_bytes()) {
    pool->expect_placed(static_cast<std::size_t>(
        std::min<std::uint64_t>(blocks_of_file(length, pool->block_bytes()), pool->block_count())));
  }
  state_->stream->resize(length, *state_->file);
}

void FileArrayBase::allocate_bytes(std::uint64_t length) { state_->file->allocate(length); }

void FileArrayBase::flush_bytes(std::uint64_t offset, std::uint64_t bytes, Flush how) {
  state_->stream->write_changes(offset, bytes);
  if (how == Flush::kSynced) state_->sync();
}

void FileArrayBase::prefault(std::uint64_t offset, std::size_t bytes, Access access) {
  state_->stream->prefault(offset, bytes, access);
}

void FileArrayBase::will_need_bytes(std::uint64_t offset, std::uint64_t bytes) {
  state_->stream->will_need(offset, bytes);
}

const std::byte* FileArrayBase::home_of(const void* at) noexcept {
  return state_->stream->home_of(at);
}

void FileArrayBase::expect_whole_elements(std::size_t element_bytes) const {
  if (state_->allow_rest) return;
  vortex::expect_whole_elements(state_->stream->name(), length_bytes(), element_bytes);
}

Stream& FileArrayBase::stream() noexcept { return *state_->stream; }

std::size_t FileArrayBase::block_bytes() const noexcept { return state_->pool->block_bytes(); }

FileStatistics FileArrayBase::statistics() const {
  const AnyOrderStream& stream = *state_->stream;
  FileStatistics result;
  result.source = stream.read_statistics();
  result.sink = stream.write_statistics();
  result.any_order = stream.order_statistics();
  for (const Disk* disk : stream.layout().disks()) result.disks.push_back(disk->statistics());
  result.direct = state_->direct;
  result.pool_bytes = state_->pool->pool_bytes();
  result.advice = reread_advice(result.source, result.any_order, result.pool_bytes);
  return result;
}

}}  // namespace vortex::v0
