// A file as an array: a `const T*` to all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "vortex/block_pool.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/disk.h"
#include "vortex/stream.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Which touches of a reader's array are served.
enum class ReadOrder : std::uint8_t {
  kAny,      // all, where the file can be read again: a block that was dropped is read once more.
             // Others (pipes, sockets, files of unknown size) are read forward
  kForward,  // those within a window that moves forward; one behind it is the stream's error. Saves
             // up to three blocks of memory, and shows mistakes
};

// Numbers of blocks, requests and walks: see kMaxPoolBlocks.
struct FileReaderOptions {
  std::size_t block_bytes = 0;      // 0: in any order 1 MiB, forward 2 MiB; less for files
                                    // smaller than the pool, and where memory_bytes has no room
                                    // for blocks of that size
  std::size_t comeback_blocks = 1;  // M: how far the reader may go back. In any order: the last
                                    // M + 1 blocks touched, and at least 4, are always there
  std::size_t read_ahead = 4;       // N: requests beyond the block in use
  std::size_t request_bytes = 0;    // 0: a block, or several small ones
  // In any order: memory for blocks at most. What the other options do not need holds more of those
  // that were touched last. 0: no more than they need. A file has no use for more than its length;
  // beyond 16 MiB the memory is taken as it is touched, 2 MiB at a time. Less than the other
  // options need is raised to that.
  std::size_t memory_bytes = 0;
  ReadOrder order = ReadOrder::kAny;
  std::size_t cursors = 1;  // in any order: how many walks are expected, and have memory for N
                            // requests each. There may be more, which share it
  Caching caching = Caching::kAuto;
  Disk* disk = nullptr;  // null: one of its own. Must outlive the reader
  BlockPool* pool =
      nullptr;  // null: one of its own, of about the size needed. Must outlive the reader
  // Address space for data whose length nobody knows beforehand: more than that cannot be read.
  // Halved, down to a gigabyte, when the system refuses, so that the largest number is as much as
  // can be had; see InputStreamBase::reserved_bytes(). 0: the default.
  std::uint64_t unknown_length_bytes = std::uint64_t{1} << 40;
  std::string name = {};  // for messages; the path by default
  // FileReader<T> of a file that ends in the middle of an element: size() leaves the rest out,
  // which otherwise is an error.
  bool allow_rest = false;
};

// The untyped part.
class VORTEX_EXPORT FileReaderBase {
 public:
  // Blocks of such a pool that a reader with these options takes for good, where the file is not
  // striped and has as many; otherwise it takes those that it has. Throws Error(EINVAL) for blocks
  // of 0 bytes, and for options that no pool is large enough for.
  static std::size_t blocks_needed(const FileReaderOptions& options, std::size_t block_bytes);

  explicit FileReaderBase(const std::string& path, const FileReaderOptions& options = {});
  // Reads a descriptor that stays its owner's, from where it stands to its end. A file or a block
  // device is read at offsets, and goes on standing there; a pipe, socket or terminal, which has
  // none, is used up, and so is a file whose size the system does not tell (/proc). Whatever a
  // block holds becomes readable when the block is full or the data end, so this is not for
  // conversations.
  explicit FileReaderBase(int descriptor, const FileReaderOptions& options = {});
  explicit FileReaderBase(std::unique_ptr<FileLayout> layout,
                          const FileReaderOptions& options = {});

  // One that was moved from can only be destroyed or assigned to.
  FileReaderBase(FileReaderBase&&) noexcept;
  FileReaderBase& operator=(FileReaderBase&&) noexcept;
  ~FileReaderBase();

  const std::byte* bytes() const noexcept { return bytes_; }
  // Known from the start for files; for pipes, sockets and terminals once the end has been read.
  std::optional<std::uint64_t> length_bytes() const noexcept;
  // As InputStreamBase::readable_bytes(), which throws ERANGE.
  std::uint64_t readable_bytes(std::uint64_t offset) const;

  // Places [offset, offset + bytes) for system calls; see InputStreamBase::prefault(). In any
  // order, up to W blocks, which stay until as many others have been touched.
  void prefault(std::uint64_t offset, std::size_t bytes);
  // In any order: begins to read what is not there of [offset, offset + bytes), and does not wait.
  // For those who know where they will go next, and no walk shows it. Takes memory of blocks
  // touched long ago, none of the last W; what finds none, or is not touched before others take its
  // memory, is read when it is touched. Does nothing where the file is read forward.
  void will_need_bytes(std::uint64_t offset, std::uint64_t bytes);
  // See InputStreamBase::home_of().
  const std::byte* home_of(const void* at) noexcept;

  // The stream underneath: failure(), cancel(), statistics() of its faults.
  Stream& stream() noexcept;
  std::size_t block_bytes() const noexcept;
  FileStatistics statistics() const;

 protected:
  std::uint64_t known_length_bytes() const;
  // Throws Error(EINVAL) where the length is known and is no multiple of an element's, unless the
  // options allow that.
  void expect_whole_elements(std::size_t element_bytes) const;
  // The same of what can be read in any order; throws Error(EINVAL) where it cannot.
  std::uint64_t any_order_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  const std::byte* bytes_ = nullptr;
};

// write_from_stream() of input_stream.h, from a file.
VORTEX_EXPORT void write_from_stream(int descriptor, FileReaderBase& reader, std::uint64_t offset,
                                     std::uint64_t bytes);

// FileReader<T>: the Vortex file wrapper of section 6.3.
//
//   vortex::FileReader<std::uint64_t> in("numbers");
//   const std::uint64_t* data = in.data();
//   for (std::uint64_t i = 0, n = in.size(); i < n; ++i) sum += data[i];
//
// Reading data() waits for the disk inside a page fault, seldom, since blocks are read ahead. After
// the end come zeros to the end of the page and a page more. An I/O error inside a loop ends the
// process with a line that says what happened, unless the loop runs in vortex::guarded(). A file
// that shrinks while it is read is such an error (ENODATA); what is appended to it meanwhile is not
// read.
//
// The pointer may be touched anywhere, in any order and by any number of threads, in the same fixed
// memory of blocks_needed() blocks: a block that was dropped is read again, as the file is then.
// Let W be M + 1, and at least 4, which is what one instruction can touch. The last W blocks
// touched are always there. For any other block the one touched longest ago is dropped, but none
// that a walk is in.
//
// Walks from block to block, upwards or downwards, are noticed (cursors), and each has its own
// read-ahead. One begins with the second of two neighbouring blocks, and its read-ahead grows from
// one request to N. The first touch of the file's beginning begins one with all of its read-ahead,
// and where FileReaderOptions::cursors announces several, so do the first touches of as many
// places. There is memory for N requests each of the walks announced; more walks share it, and one
// that stands still while others go on loses its part. Touches in other places take at most a block
// from it.
//
// With ReadOrder::kForward, and for what cannot be read again, the array has a window as an
// InputStream has, and threads may read inside it.
//
// Constructors throw Error, with the path: EINVAL, too, where the file's length is no multiple of
// sizeof(T), which names both; see FileReaderOptions::allow_rest.
template <typename T>
class FileReader : public FileReaderBase {
  static_assert(std::is_trivially_copyable_v<T>,
                "a file holds bytes: the element type of a reader must be trivially copyable");

 public:
  explicit FileReader(const std::string& path, const FileReaderOptions& options = {})
      : FileReaderBase(path, options) {
    expect_whole_elements(sizeof(T));
  }
  explicit FileReader(int descriptor, const FileReaderOptions& options = {})
      : FileReaderBase(descriptor, options) {
    expect_whole_elements(sizeof(T));
  }
  explicit FileReader(std::unique_ptr<FileLayout> layout, const FileReaderOptions& options = {})
      : FileReaderBase(std::move(layout), options) {
    expect_whole_elements(sizeof(T));
  }

  const T* data() const noexcept { return reinterpret_cast<const T*>(bytes()); }

  // Elements. Throws Error: ESPIPE where only the end tells how many there are, and it has not been
  // reached (readable_bytes() is for those who read pipes as well); EINVAL where that end is in the
  // middle of one.
  std::uint64_t size() const {
    const std::uint64_t count = known_length_bytes() / sizeof(T);
    if (count * sizeof(T) != known_length_bytes()) expect_whole_elements(sizeof(T));
    return count;
  }

  // See FileReaderBase; in elements.
  void will_need(std::uint64_t first, std::uint64_t count) {
    will_need_bytes(detail::saturating_product(first, sizeof(T)),
                    detail::saturating_product(count, sizeof(T)));
  }

  // The whole elements as a contiguous range, which std::copy() and memcpy() may read in the order
  // that they like. end() and span() throw Error: EINVAL where the file is read forward and longer
  // than a block, for which there are plain loops over data(), and ESPIPE as size() does.
  const T* begin() const noexcept { return data(); }
  const T* end() const { return data() + any_order_bytes() / sizeof(T); }
  std::span<const T> span() const { return {begin(), end()}; }
};

}}  // namespace vortex::v0
