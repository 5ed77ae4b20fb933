// The parts of a partition, as files that are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/file/block_file.h"
#include "sort/runs/sort_watch.h"
#include "vortex/block_pool.h"
#include "vortex/disk.h"
#include "vortex/file_writer.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

struct PartFileOptions {
  FileWriterOptions writer = {};    // of a segment, without its disk
  std::uint64_t segment_bytes = 0;  // whole blocks
  std::uint64_t extent_bytes = 0;   // room that is reserved at a time; 0: none
  std::stop_token stop = {};
};

// A file that is written from front to back, in segments: writers one behind the other, so that
// address space limits no part.
class PartFile {
 public:
  // Creates the file. Throws Error as BlockFile::create() does.
  PartFile(const std::string& path, Disk& disk, Caching caching);
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& name() const noexcept { return file_.name(); }
  BlockFile& file() noexcept { return file_; }
  std::uint64_t faults() const noexcept { return faults_; }

  // The array of the next segment. Throws Error as FileWriterBase does.
  std::byte* begin_segment(const PartFileOptions& options);
  // Sends the last block of the segment, which has `bytes`, on its way.
  void begin_end(std::uint64_t bytes, std::size_t block_bytes);
  // Waits until all of the segment has been written.
  void end_segment(std::uint64_t bytes, std::size_t block_bytes);
  // Cuts it to its length.
  void end(std::uint64_t bytes, bool sync);

 private:
  class Segment;

  void reserve_up_to(std::uint64_t end) noexcept;

  BlockFile file_;
  Disk& disk_;
  std::uint64_t begin_ = 0;  // of the segment
  std::uint64_t extent_bytes_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t faults_ = 0;
  std::optional<FileWriterBase> writer_;
  std::optional<StreamStop> stop_;
};

// All parts, and where their next records go.
class PartFiles {
 public:
  PartFiles(std::size_t record_bytes, std::size_t block_bytes, const PartFileOptions& options)
      : record_bytes_(record_bytes), block_bytes_(block_bytes), options_(options) {}

  // Creates the next part. Throws Error.
  void add(const std::string& path, Disk& disk, Caching caching);
  // Begins to write all of them.
  void begin();

  // Appends records, each to its part, until all are there or a segment is full, and returns how
  // many. Inside guarded(): touches memory of streams, from front to back.
  std::size_t append(const std::byte* records, std::size_t count, const std::uint32_t* parts);
  // A segment is full: the next one begins. Throws Error.
  void extend();

  // Writes what is left, cuts, syncs and names all of them. Throws Error.
  void publish(bool sync);

  std::size_t size() const noexcept { return files_.size(); }
  const std::string& name(std::size_t part) const noexcept { return files_[part].name(); }
  std::uint64_t bytes(std::size_t part) const noexcept {
    return before_[part] + static_cast<std::uint64_t>(ends_[part].cursor - begins_[part]);
  }
  std::uint64_t faults() const noexcept;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  bool append_in_pieces(std::size_t part, const std::byte* record);
  std::uint64_t segment_bytes(std::size_t part) const noexcept {
    return static_cast<std::uint64_t>(ends_[part].cursor - begins_[part]);
  }

  const std::size_t record_bytes_;
  const std::size_t block_bytes_;
  const PartFileOptions options_;
  std::deque<PartFile> files_;
  // Of each part: where records go and where the block ends, where the segment begins, and the
  // bytes in front of it.
  std::vector<OpenBuckets::End> ends_;
  std::vector<std::byte*> begins_;
  std::vector<std::uint64_t> before_;
  std::size_t full_ = kNone;  // the part whose segment is full
  std::size_t pieces_ = 0;    // bytes of the next record that are in the segment in front
};

}}  // namespace vortex::v0
