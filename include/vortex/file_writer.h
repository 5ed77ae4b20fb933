// A new file as an array: a `T*` to write, from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/disk.h"
#include "vortex/output_stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class FileSink;

// Numbers of blocks and requests: see kMaxPoolBlocks.
struct FileWriterOptions {
  std::size_t block_bytes = 0;      // 0: 2 MiB, less when `expected_bytes` is small
  std::size_t comeback_blocks = 1;  // L: how far the writer may go back
  std::size_t write_behind = 4;     // requests under way
  std::size_t request_bytes = 0;    // 0: a block, or several small ones
  Caching caching = Caching::kAuto;
  Gaps gaps = Gaps::kZeros;          // kUnspecified saves the disks' threads a pass over them
  bool sync = false;                 // finish() returns when data and name have reached the disk
  bool replace = true;               // an existing file gives way at finish(); otherwise EEXIST
  std::uint64_t expected_bytes = 0;  // space to reserve now, so that a full disk shows now; 0: none
  Disk* disk = nullptr;              // null: one of its own. Must outlive the writer
  BlockPool* pool =
      nullptr;  // null: one of its own, of about the size needed. Must outlive the writer
  std::uint64_t reserve_bytes = std::uint64_t{1}
                                << 40;  // address space: the most that can be written
  // When the system refuses reserve_bytes, the half is tried, and so on, down to this. So the
  // largest reserve_bytes means as much as can be had.
  std::uint64_t least_reserve_bytes = std::uint64_t{1} << 30;
  std::string name = {};  // for messages; the path by default
};

// The untyped part.
class VORTEX_EXPORT FileWriterBase {
 public:
  // Blocks of such a pool that a writer with these options takes for good, where the file is not
  // striped. Throws Error(EINVAL) for blocks of 0 bytes, and for options that no pool is large
  // enough for.
  static std::size_t blocks_needed(const FileWriterOptions& options, std::size_t block_bytes);

  // Creates a file that appears under `path` when finish() has succeeded, and not before, in the
  // folder that has that name now. A file that it replaces passes on its owner, mode, access
  // control list and extended attributes as far as the process may; the hard links of that file
  // keep the old contents.
  explicit FileWriterBase(const std::string& path, const FileWriterOptions& options = {});
  // Writes to a descriptor that stays its owner's, in order and from where it stands: a pipe, a
  // socket, a terminal, a file.
  explicit FileWriterBase(int descriptor, const FileWriterOptions& options = {});
  explicit FileWriterBase(std::unique_ptr<FileLayout> layout,
                          const FileWriterOptions& options = {});

  // One that was moved from can only be destroyed or assigned to. A file that is replaced before
  // its finish() does not appear.
  FileWriterBase(FileWriterBase&&) noexcept = default;
  FileWriterBase& operator=(FileWriterBase&&) noexcept;

  std::byte* bytes() noexcept { return stream_->bytes(); }

  // The data end after `length` bytes: writes what is left, waits for the disk, cuts the file to
  // that length, syncs it if the options say so, and gives it its name. Throws Error: whatever
  // failed first; then nothing appears under the name, unless the error says that the file is in
  // place, and only syncing its folder or setting its mode failed.
  void finish_bytes(std::uint64_t length) { stream_->finish_bytes(length); }

  // Places [offset, offset + bytes) for system calls; see OutputStreamBase::prefault().
  void prefault(std::uint64_t offset, std::size_t bytes) { stream_->prefault(offset, bytes); }

  OutputStreamBase& stream() noexcept { return *stream_; }
  std::size_t block_bytes() const noexcept { return pool_->block_bytes(); }
  FileStatistics statistics() const;

 private:
  std::unique_ptr<BlockPool> own_pool_;
  BlockPool* pool_ = nullptr;
  FileSink* sink_ = nullptr;  // the stream's
  std::string direct_;
  std::unique_ptr<OutputStreamBase> stream_;
};

// FileWriter<T>: the Vortex file wrapper of section 6.3.
//
//   vortex::FileWriter<std::uint64_t> out("numbers");
//   for (std::uint64_t i = 0; i < n; ++i) out.data()[i] = i;
//   out.finish(n);
//
// Writing data() waits for the disk inside a page fault only when write_behind requests are under
// way. Bytes that the writer jumps over become zeros, parts of a block and whole blocks alike,
// unless the options say kUnspecified: then parts hold what the memory held before. Without
// finish(), nothing appears under the name, and a file that was there before stays. Errors as for
// FileReader.
template <typename T>
class FileWriter : public FileWriterBase {
  static_assert(std::is_trivially_copyable_v<T>,
                "a file holds bytes: the element type of a writer must be trivially copyable");

 public:
  using FileWriterBase::FileWriterBase;

  T* data() noexcept { return reinterpret_cast<T*>(bytes()); }
  void finish(std::uint64_t count) { finish_bytes(detail::saturating_product(count, sizeof(T))); }
};

}}  // namespace vortex::v0
