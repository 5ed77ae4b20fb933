// A file as the disks see it: how to reach it with and without the page cache, and under which
// name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vortex::inline v0 {

struct CreateOptions {
  bool replace = true;   // an existing file of that name gives way at publish(); otherwise EEXIST
  bool direct = true;    // try to reach the file around the page cache
  unsigned mode = 0666;  // as for open(2); a file that is replaced passes mode and owner on
};

// An open file. Reading and writing happen through Disk with the descriptors; what is here opens,
// ends and names it. Movable. Errors are thrown as vortex::Error with operation and path.
//
// A file that is created has no name at all until publish() (O_TMPFILE), or, where the file system
// cannot do that, a temporary one in the same folder; so whatever happens before, nothing is ever
// found under its final name but the whole file.
class BlockFile {
 public:
  BlockFile() = default;
  // Removes the temporary name, if there is one.
  ~BlockFile();
  BlockFile(BlockFile&& other) noexcept;
  BlockFile& operator=(BlockFile&& other) noexcept;

  // Opens for reading; devices and pipes too.
  static BlockFile open(const std::string& path, bool direct = true);
  // Something else than a regular file at `path` (a device, a pipe) is opened for writing as it is.
  // Symbolic links are followed and stay. What could not be given its name later is refused now.
  static BlockFile create(const std::string& path, const CreateOptions& options = {});
  // Without a name, in a folder; gone when it is closed.
  static BlockFile temporary(const std::string& folder, bool direct = true);
  // Somebody else's descriptor, which stays open, for reading or for writing. `name` is for
  // messages.
  static BlockFile borrow(int descriptor, std::string name, bool writing);

  explicit operator bool() const noexcept { return file_ >= 0; }
  const std::string& name() const noexcept { return name_; }

  // Through the page cache.
  int descriptor() const noexcept { return file_; }
  // Around it: -1 where that is not possible, and why.
  int direct_descriptor() const noexcept { return direct_; }
  const std::string& direct_refusal() const noexcept { return refusal_; }
  // Offsets and sizes of direct transfers are multiples of this.
  std::size_t alignment() const noexcept { return alignment_; }

  // False for pipes, sockets, terminals, and for descriptors in the middle of a file: they are read
  // and written in order.
  bool seekable() const noexcept { return seekable_; }
  // In bytes, of seekable files, when the file was opened.
  std::uint64_t length() const noexcept { return length_; }

  // Bytes that the file system still has room for.
  std::uint64_t free_bytes() const;
  // The same, and what the file holds already: the most that it can have.
  std::uint64_t room_bytes() const;

  // Reserves space for `bytes` bytes from the beginning, so that a full disk shows now. Where the
  // file system cannot, nothing happens.
  void allocate(std::uint64_t bytes);
  void truncate(std::uint64_t bytes);
  void sync();
  // Gives back the space of a range, which then reads as zeros. False where the file system cannot.
  bool punch_hole(std::uint64_t offset, std::uint64_t bytes) noexcept;

  // Gives a created file its name, at once and whole. With `durable`, the name too has reached the
  // disk when this returns; should only that fail, the file has its name all the same. Nothing to
  // do for other files.
  void publish(bool durable);

 private:
  void close() noexcept;
  void look(bool writing);
  void open_direct(bool writing);
  [[noreturn]] void fail(const std::string& operation) const;
  [[noreturn]] void fail(const std::string& operation, int error) const;

  std::string name_;            // path, final path or description
  std::string temporary_name_;  // to be removed
  int creator_pid_ = -1;
  bool to_be_published_ = false;
  bool unnamed_ = false;  // O_TMPFILE
  bool replace_ = true;
  bool owned_ = true;
  int file_ = -1;
  int direct_ = -1;
  std::string refusal_;
  std::size_t alignment_ = 1;
  bool seekable_ = true;
  std::uint64_t length_ = 0;
};

}  // namespace vortex::inline v0
