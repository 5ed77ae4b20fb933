// A file that is read and changed in place: `T*` to all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/disk.h"
#include "vortex/file_reader.h"
#include "vortex/file_writer.h"
#include "vortex/stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Numbers of blocks, requests and walks: see kMaxPoolBlocks.
struct FileArrayOptions {
  // Memory for blocks at most. What the other options do not need holds more of the blocks that
  // were touched last. 0: no more than they need. It is taken as it is touched, 2 MiB at a time,
  // but for 16 MiB and less that the file fills: those when the array is made.
  std::size_t memory_bytes = 0;
  std::size_t block_bytes = 0;      // 0: 1 MiB, less for small files and little memory
  std::size_t comeback_blocks = 1;  // M: the last M + 1 blocks touched, and at least 4, are there
  std::size_t read_ahead = 4;       // N: requests that a walk reads ahead
  std::size_t cursors = 1;          // walks expected, with memory for N requests each
  std::size_t write_behind = 4;     // requests to write that have memory
  std::size_t request_bytes = 0;    // 0: a block, or several small ones
  // kAuto: writes go around the page cache, reads through it where it holds the data.
  Caching caching = Caching::kAuto;
  bool make = false;     // a file that is missing is made, empty
  Disk* disk = nullptr;  // null: one of its own. Must outlive the array
  BlockPool* pool =
      nullptr;  // null: one of its own, of about the size needed. Must outlive the array
  // Address space: the most that the file can grow to. Halved, down to the file's length, when the
  // system refuses, so that the largest number is as much as can be had. Where less than 64 TiB are
  // left to the process, as with a hundred arrays, it is less, from 16 TiB on 1 GiB at most, and
  // from 1 TiB on none. See Stream::reserved_bytes().
  std::uint64_t reserve_bytes = std::uint64_t{1} << 40;
  std::string name = {};    // for messages; the path by default
  bool allow_rest = false;  // as in FileReaderOptions
};

// Where the data are when flush() returns.
enum class Flush : std::uint8_t {
  kWritten,  // with the kernel or the disk: other processes read them, a failure of power may lose
             // them
  kSynced,   // on the disk, for good (fsync), and so is the name of a file opened with `make`
};

// The untyped part.
class VORTEX_EXPORT FileArrayBase {
 public:
  // Blocks of such a pool that an array with these options takes for good. Throws Error(EINVAL) for
  // blocks of 0 bytes, and for options that no pool is large enough for.
  static std::size_t blocks_needed(const FileArrayOptions& options, std::size_t block_bytes);

  // Opens a regular file or a block device that can be read and written. Throws Error, with the
  // path: what open(2) says, ESPIPE for what has no offsets, ENOMEM when the pool cannot guarantee
  // the blocks or the system refuses address space, EINVAL when the block size does not suit direct
  // I/O on the file.
  explicit FileArrayBase(const std::string& path, const FileArrayOptions& options = {});

  // Movable, but not assignable: a stream that is replaced would outlive its pool.
  FileArrayBase(FileArrayBase&&) noexcept;
  FileArrayBase& operator=(FileArrayBase&&) = delete;
  // Writes what was changed, and does not sync. What cannot be written is lost, and a line on
  // stderr says what: call flush() to learn of it in time.
  ~FileArrayBase();

  std::byte* bytes() const noexcept { return bytes_; }
  std::uint64_t length_bytes() const noexcept;

  // The file is longer or shorter from now on, on the disk as well; the pointer stays. What is new
  // is a hole, which reads as zeros. Waits for the transfers under way. Threads may go on using
  // what is left. Throws Error, with nothing changed: EFBIG beyond the reservation or RLIMIT_FSIZE
  // (SIGXFSZ is not raised), ENOMEM where vm.max_map_count has no room for the blocks, and what
  // the system says.
  void resize_bytes(std::uint64_t length);
  // Reserves space on the disk for the first `length` bytes, holes included, so that a full disk
  // shows now (ENOSPC). Nothing happens where the file system cannot do that. Throws Error(EFBIG)
  // for more than any file has.
  void allocate_bytes(std::uint64_t length);

  // Writes what was changed in [offset, offset + bytes) before the call, and waits; other threads
  // may go on, and what they change meanwhile is written or not. Throws Error, with file and
  // offset: what could not be written stays in memory, changed, and the next call tries again. It
  // may be called after the stream has failed. When a sync fails, nobody knows what is on the disk,
  // and all later ones fail too (EIO).
  void flush_bytes(std::uint64_t offset, std::uint64_t bytes, Flush how = Flush::kSynced);

  // Places [offset, offset + bytes), up to W blocks, for system calls that read it, or write to it
  // (kWrite: it counts as changed then). The blocks stay until as many others have been touched. A
  // flush() makes them unfit to be written to again by a call that begins later; what a call that
  // had begun (a direct read) writes to them is written by whatever writes next.
  void prefault(std::uint64_t offset, std::size_t bytes, Access access);
  // See FileReaderBase::will_need_bytes().
  void will_need_bytes(std::uint64_t offset, std::uint64_t bytes);
  // See InputStreamBase::home_of().
  const std::byte* home_of(const void* at) noexcept;

  // The stream underneath: failure(), cancel(), statistics() of its faults.
  Stream& stream() noexcept;
  std::size_t block_bytes() const noexcept;
  FileStatistics statistics() const;

 protected:
  // See FileReaderBase.
  void expect_whole_elements(std::size_t element_bytes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::byte* bytes_ = nullptr;
};

// A file as an array of T, whatever its size, in a fixed memory:
//
//   vortex::FileArray<Account> accounts("accounts", {.memory_bytes = 64 << 20});
//   std::sort(accounts.data(), accounts.data() + accounts.size(), by_name);
//   accounts.flush();
//
// It may be touched and changed anywhere, in any order, by any number of threads, as a FileReader
// may be read. Blocks are placed so that they can only be read; the first write to one faults, and
// the block is written before its memory is taken for another, and behind the walks before that. A
// thread that writes to a block that is being written waits. A change is a change of memory until
// the block is written: other processes see it then, and flush() is what makes it certain.
//
// Holes read as zeros and stay holes until a block of them is changed; then the block is written
// whole. What is written behind the end, in the last block, is not in the file, and a write behind
// that block is the stream's error (ERANGE). A block that cannot be written (ENOSPC, EIO) stays in
// memory. A touch that needs memory while nothing can be written is refused, with that error; the
// next one tries again, and flush() does. A process that ends without the destructor loses what was
// not written.
//
// It is mmap() with a fixed memory, direct I/O, a read-ahead per walk and errors in place of
// SIGBUS. mmap() is the better choice where the file fits into memory and is used again and again,
// where touches are few bytes in random places (it moves 4 KiB, an array a block), where processes
// share the changes at once, and where changes have to survive a crash of the process.
template <typename T>
class FileArray : public FileArrayBase {
  static_assert(std::is_trivially_copyable_v<T>,
                "a file holds bytes: the element type of an array must be trivially copyable");

 public:
  // Throws Error as the untyped part does, and EINVAL where the file's length is no multiple of
  // sizeof(T), unless FileArrayOptions::allow_rest.
  explicit FileArray(const std::string& path, const FileArrayOptions& options = {})
      : FileArrayBase(path, options) {
    expect_whole_elements(sizeof(T));
  }

  T* data() const noexcept { return reinterpret_cast<T*>(bytes()); }
  // Whole elements.
  std::uint64_t size() const noexcept { return length_bytes() / sizeof(T); }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size(); }
  std::span<T> span() const noexcept { return {data(), size()}; }

  // See FileArrayBase; in elements. More than 2^64 bytes are more than any file has.
  void resize(std::uint64_t count) { resize_bytes(bytes_of(count)); }
  void allocate(std::uint64_t count) { allocate_bytes(bytes_of(count)); }
  void flush(std::uint64_t first, std::uint64_t count, Flush how = Flush::kSynced) {
    flush_bytes(bytes_of(first), bytes_of(count), how);
  }
  void will_need(std::uint64_t first, std::uint64_t count) {
    will_need_bytes(bytes_of(first), bytes_of(count));
  }
  void flush(Flush how = Flush::kSynced) { flush_bytes(0, length_bytes(), how); }

 private:
  static std::uint64_t bytes_of(std::uint64_t count) noexcept {
    return detail::saturating_product(count, sizeof(T));
  }
};

}}  // namespace vortex::v0
