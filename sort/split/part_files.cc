#include "sort/split/part_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include "io/sequence/file_layout.h"
#include "vortex/detail/record/sort_key.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/error.h"

namespace vortex { inline namespace v0 {

// What a writer of a segment sees of the file, which outlives it, and which is ended by itself.
class PartFile::Segment final : public FileLayout {
 public:
  explicit Segment(PartFile& part) : part_(part), disk_(&part.disk_), begin_(part.begin_) {}

  const std::string& name() const noexcept override { return part_.name(); }
  std::span<Disk* const> disks() const noexcept override { return {&disk_, 1}; }
  Place locate(std::uint64_t unit, std::size_t unit_bytes) noexcept override {
    return {disk_, &part_.file_, part_.file_.begin() + begin_ + unit * unit_bytes};
  }
  Place assign(std::uint64_t unit, std::size_t unit_bytes) noexcept override {
    const Place place = locate(unit, unit_bytes);
    part_.reserve_up_to(place.offset + unit_bytes);
    return place;
  }
  std::optional<std::uint64_t> length() const noexcept override { return std::nullopt; }
  void finish(std::uint64_t, bool) override {}

 private:
  PartFile& part_;
  Disk* disk_;
  const std::uint64_t begin_;
};

namespace {

// A pipe with a name cannot be opened while nobody reads it.
BlockFile create_part(const std::string& path, Caching caching) {
  CreateOptions options;
  options.direct = caching != Caching::kBuffered;
  struct stat existing {};
  if (stat(path.c_str(), &existing) != 0 || !S_ISFIFO(existing.st_mode)) {
    BlockFile file = BlockFile::create(path, options);
    if (file.seekable()) return file;
  }
  throw Error(EINVAL, "'" + path + "' is no file, and a part must be one");
}

}  // namespace

PartFile::PartFile(const std::string& path, Disk& disk, Caching caching)
    : file_(create_part(path, caching)), disk_(disk) {}

void PartFile::reserve_up_to(std::uint64_t end) noexcept {
  if (extent_bytes_ == 0) {
    file_.grow_ahead(end);
    return;
  }
  if (end <= reserved_) return;
  const std::uint64_t wanted = detail::round_up(end, extent_bytes_);
  // Where there is no more room, writes will tell.
  if (!file_.try_to_grow(reserved_, wanted)) extent_bytes_ = 0;
  reserved_ = wanted;
}

std::byte* PartFile::begin_segment(const PartFileOptions& options) {
  FileWriterOptions for_writer = options.writer;
  for_writer.disk = &disk_;
  extent_bytes_ = options.extent_bytes;
  writer_.emplace(std::make_unique<Segment>(*this), for_writer);
  stop_.emplace(writer_->stream(), options.stop);
  return writer_->bytes();
}

void PartFile::begin_end(std::uint64_t bytes, std::size_t block_bytes) {
  // A touch of the next block hands the one in front over.
  if (bytes % block_bytes != 0) writer_->prefault(detail::round_up(bytes, block_bytes), 1);
}

void PartFile::end_segment(std::uint64_t bytes, std::size_t block_bytes) {
  const std::uint64_t whole = detail::round_up(bytes, block_bytes);
  writer_->finish_bytes(whole);
  begin_ += whole;
  faults_ += writer_->stream().statistics().faults;
  stop_.reset();
  writer_.reset();
}

void PartFile::end(std::uint64_t bytes, bool sync) {
  file_.truncate(bytes);
  if (sync) file_.sync();
}

void PartFiles::add(const std::string& path, Disk& disk, Caching caching) {
  files_.emplace_back(path, disk, caching);
}

void PartFiles::begin() {
  before_.resize(files_.size());
  for (PartFile& file : files_) {
    begins_.push_back(file.begin_segment(options_));
    // The first record finds no room, and begins a block.
    ends_.push_back({begins_.back(), begins_.back()});
  }
}

// The rest of a record that lies in several blocks, or begins one. Blocks are touched in their
// order, though the compiler may order the bytes of a copy as it likes. False: the segment is full.
bool PartFiles::append_in_pieces(std::size_t part, const std::byte* record) {
  OpenBuckets::End& end = ends_[part];
  while (pieces_ < record_bytes_) {
    if (end.room() == 0) {
      if (segment_bytes(part) >= options_.segment_bytes) {
        full_ = part;
        return false;
      }
      end.limit += block_bytes_;
    }
    const std::size_t few = std::min(end.room(), record_bytes_ - pieces_);
    std::memcpy(end.cursor, record + pieces_, few);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    end.cursor += few;
    pieces_ += few;
  }
  pieces_ = 0;
  return true;
}

std::size_t PartFiles::append(const std::byte* records, std::size_t count,
                              const std::uint32_t* parts) {
  return detail::with_constant<4, 8, 12, 16, 24, 32, 64, 100, 128>(
      record_bytes_, [&](auto record_bytes) {
        OpenBuckets::End* const ends = ends_.data();
        for (std::size_t i = 0; i < count; ++i, records += record_bytes) {
          OpenBuckets::End& end = ends[parts[i]];
          if (pieces_ != 0 || end.room() < record_bytes) [[unlikely]] {
            if (!append_in_pieces(parts[i], records)) return i;
            continue;
          }
          std::memcpy(end.cursor, records, record_bytes);
          end.cursor += record_bytes;
        }
        return count;
      });
}

void PartFiles::extend() {
  const std::size_t part = std::exchange(full_, kNone);
  const std::uint64_t bytes = segment_bytes(part);
  files_[part].end_segment(bytes, block_bytes_);
  before_[part] += bytes;
  begins_[part] = files_[part].begin_segment(options_);
  ends_[part] = {begins_[part], begins_[part]};
}

void PartFiles::publish(bool sync) {
  for (std::size_t i = 0; i < size(); ++i) files_[i].begin_end(segment_bytes(i), block_bytes_);
  std::vector<BlockFile*> files;
  for (std::size_t i = 0; i < size(); ++i) {
    files_[i].end_segment(segment_bytes(i), block_bytes_);
    files.push_back(&files_[i].file());
  }
  for (std::size_t i = 0; i < size(); ++i) files_[i].end(bytes(i), sync);
  publish_together(files, sync);
}

std::uint64_t PartFiles::faults() const noexcept {
  std::uint64_t faults = 0;
  for (const PartFile& file : files_) faults += file.faults();
  return faults;
}

}}  // namespace vortex::v0
