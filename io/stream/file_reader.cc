#include "vortex/file_reader.h"

#include <cerrno>
#include <limits>
#include <utility>

#include "io/file/own_pool.h"
#include "io/sequence/single_file.h"
#include "io/stream/file_stream.h"
#include "io/stream/reread_advice.h"
#include "io/stream/whole_elements.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"
#include "vortex/stream/stream_calls.h"

namespace vortex { inline namespace v0 {

namespace {

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
    return file_stream_blocks(options, true, bytes, layout.unit_bytes());
  });
}

}  // namespace

std::size_t FileReaderBase::blocks_needed(const FileReaderOptions& options,
                                          std::size_t block_bytes) {
  return file_stream_blocks(options, options.order == ReadOrder::kAny, block_bytes);
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
    : allow_rest_(options.allow_rest) {
  const std::optional<std::uint64_t> length = layout->length();
  const std::uint64_t file_bytes = length.value_or(std::numeric_limits<std::uint64_t>::max());
  pool_ = options.pool;
  if (pool_ == nullptr) {
    const std::size_t block_bytes = chosen_block_bytes(*layout, options);
    own_pool_ = make_own_pool(layout->name(), block_bytes,
                              file_stream_blocks(options, reads_in_any_order(options, *layout),
                                                 block_bytes, layout->unit_bytes(), length),
                              file_bytes);
    pool_ = own_pool_.get();
  }
  if (layout->length() != 0) {
    direct_ = direct_io_report(*layout->locate(0, pool_->block_bytes()).file);
  }
  const bool register_pool = own_pool_ != nullptr
                                 ? pool_->may_be_pinned() && taken_at_once(*pool_, file_bytes)
                                 : homes_can_be_registered(*pool_);
  file_ = make_file_stream(*pool_, std::move(layout), options, register_pool);
  bytes_ = file_->bytes();
}

FileReaderBase::FileReaderBase(FileReaderBase&&) noexcept = default;

FileReaderBase& FileReaderBase::operator=(FileReaderBase&& other) noexcept {
  if (this == &other) return *this;
  file_.reset();  // before the pool that it uses
  own_pool_ = std::move(other.own_pool_);
  pool_ = other.pool_;
  direct_ = std::move(other.direct_);
  file_ = std::move(other.file_);
  bytes_ = other.bytes_;
  allow_rest_ = other.allow_rest_;
  return *this;
}

FileReaderBase::~FileReaderBase() = default;

std::optional<std::uint64_t> FileReaderBase::length_bytes() const noexcept {
  return file_->length_bytes();
}

std::uint64_t FileReaderBase::readable_bytes(std::uint64_t offset) const {
  return vortex::readable_bytes(*this, file_->stream().reserved_bytes(), block_bytes(), offset);
}

void FileReaderBase::will_need_bytes(std::uint64_t offset, std::uint64_t bytes) {
  file_->will_need(offset, bytes);
}

void FileReaderBase::prefault(std::uint64_t offset, std::size_t bytes) {
  file_->prefault(offset, bytes);
}

const std::byte* FileReaderBase::home_of(const void* at) noexcept { return file_->home_of(at); }

Stream& FileReaderBase::stream() noexcept { return file_->stream(); }

FileReaderStatistics FileReaderBase::statistics() const {
  FileReaderStatistics result;
  result.source = file_->read_statistics();
  result.any_order = file_->order_statistics();
  for (const Disk* disk : file_->layout().disks()) result.disks.push_back(disk->statistics());
  result.direct = direct_;
  result.pool_bytes = pool_->pool_bytes();
  result.advice = reread_advice(result.source, result.any_order, result.pool_bytes);
  return result;
}

std::uint64_t FileReaderBase::known_length_bytes() const {
  if (const auto length = length_bytes()) return *length;
  throw Error(ESPIPE, "'" + file_->stream().name() +
                          "' tells its length at its end, which has not been read yet");
}

void FileReaderBase::expect_whole_elements(std::size_t element_bytes) const {
  const auto length = length_bytes();
  if (length && !allow_rest_)
    vortex::expect_whole_elements(file_->stream().name(), *length, element_bytes);
}

std::uint64_t FileReaderBase::any_order_bytes() const {
  const std::uint64_t bytes = known_length_bytes();
  if (bytes <= block_bytes() || file_->in_any_order()) return bytes;
  throw Error(EINVAL, "'" + file_->stream().name() +
                          "' is read forward: its array is no range, of which algorithms look at "
                          "the end first; read data() in a loop, or with ReadOrder::kAny");
}

void write_from_stream(int descriptor, FileReaderBase& reader, std::uint64_t offset,
                       std::uint64_t bytes) {
  write_in_parts(descriptor, reader, reader.stream().name(), reader.block_bytes(), offset, bytes);
}

}}  // namespace vortex::v0
