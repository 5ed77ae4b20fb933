// A file as the disks see it: how to reach it with and without the page cache, and under which
// name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/name/contents_in_place.h"
#include "io/name/output_name.h"
#include "vortex/disk.h"
#include "vortex/os/descriptor.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// Bytes that unprivileged writers may still take of the file system of a folder. None where it does
// not tell how large it is (ramfs, tmpfs without a limit, many in user space or on a network):
// unknown is not zero. Throws Error: what statvfs(3) reports.
VORTEX_EXPORT std::optional<std::uint64_t> free_bytes_in(const std::string& folder);

struct CreateOptions {
  bool replace = true;   // an existing file of that name gives way at publish(); otherwise EEXIST
  bool direct = true;    // try to reach the file around the page cache
  unsigned mode = 0666;  // as for open(2); a file that is replaced passes its own on
  // Whether the contents of an existing file are replaced at publish(), not the file.
  InPlace in_place = InPlace::kNever;
  std::string waiting_folder = {};  // where they wait if the file's own folder takes no new file
  // Whether the file may have a temporary name before publish(), which stays behind when the
  // process ends; else NoNamelessFile is thrown.
  bool may_have_name = true;
};

// An open file. Reading and writing happen through Disk with the descriptors; what is here opens,
// ends and names it. Movable. Errors are thrown as vortex::Error with operation and path.
//
// A file that is created has no name at all until publish() (O_TMPFILE), or, where the file system
// cannot do that, a hidden temporary one in the same folder; so whatever happens before, nothing is
// ever found under its final name but the whole file. The folder is the one that the path led to
// when the file was created: neither renaming it nor chdir(2) moves where the file appears.
//
// A file that is replaced passes on its owner, mode, access control list and extended attributes,
// as it had them when the new one was created and as far as the process may (FileAttributes); until
// then the new one is its maker's alone (0600). Its other names, if it has hard links, keep the old
// contents, unless these are replaced in place (ContentsInPlace).
class VORTEX_EXPORT BlockFile {
 public:
  BlockFile() noexcept;
  ~BlockFile();
  BlockFile(BlockFile&&) noexcept;
  BlockFile& operator=(BlockFile&&) noexcept;

  // Opens for reading; devices and pipes too.
  static BlockFile open(const std::string& path, bool direct = true);
  // Opens a regular file or a block device to read and change it in place. With `make`, a file that
  // is missing is made, empty, under its name at once, and the first sync() has the name reach the
  // disk as well.
  static BlockFile open_to_change(const std::string& path, bool make, bool direct = true);
  // Something else than a regular file at `path` (a device, a pipe) is opened for writing as it is.
  // Symbolic links are followed and stay. A path that could not be given to the file in the end is
  // refused now.
  static BlockFile create(const std::string& path, const CreateOptions& options = {});
  // Without a name, in a folder; gone when it is closed.
  static BlockFile temporary(const std::string& folder, bool direct = true);
  // Somebody else's descriptor, which stays open. It is read from where it stands to its end: what
  // has offsets (regular files, block devices) with pread(2), so that its position stays as well;
  // what has none (pipes, sockets, terminals, files whose size the system does not tell, as in
  // /proc) in order, which uses it up. It is written in order, from where it stands. `name` is for
  // messages.
  static BlockFile borrow(int descriptor, std::string name, bool writing);
  // The same of a file that is read, through the page cache, with the length that it had when it
  // was opened. Must not outlive it.
  BlockFile lend() const;
  // The same of its first `bytes`, as they were then, around the page cache, too.
  BlockFile lend_first(std::uint64_t bytes) const;

  explicit operator bool() const noexcept { return static_cast<bool>(file_); }
  const std::string& name() const noexcept { return name_; }

  // Through the page cache.
  int descriptor() const noexcept { return file_.get(); }
  // Around it: -1 where that is not possible, and why.
  int direct_descriptor() const noexcept { return direct_.get(); }
  const std::string& direct_refusal() const noexcept { return refusal_; }
  // From now on a file that is read may be read around the page cache, where that is possible.
  void read_around_cache() { open_direct(Trial::kRead); }
  // From now on through the page cache alone.
  void use_page_cache() noexcept {
    direct_ = {};
    alignment_ = 1;
  }
  // Offsets and sizes of direct transfers are multiples of this.
  std::size_t alignment() const noexcept { return alignment_; }

  // Its file system keeps it in memory alone (tmpfs).
  bool in_memory() const noexcept { return in_memory_; }

  // False for what is read or written in order: pipes, sockets, terminals, borrowed descriptors
  // that are written to.
  bool seekable() const noexcept { return seekable_; }
  // Seekable files only, as they were when the file was opened. begin() is the offset at which the
  // data begin: the position of a borrowed descriptor, else 0. length() is the number of bytes from
  // there to the end.
  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t length() const noexcept { return length_; }

  // Writes with plain calls, where there is so little that a disk would take longer to begin, from
  // where the descriptor stands. Blocks until everything is written. The signals that a write sends
  // to its own thread, SIGPIPE and SIGXFSZ, do not come: the error says as much. Throws Error.
  void write_all(std::string_view bytes);

  // As free_bytes_in() its folder; none, too, where the system refuses to say. May be called inside
  // a fault.
  std::optional<std::uint64_t> free_bytes() const noexcept;
  // The same, and what the file holds already: the most that it can have.
  std::optional<std::uint64_t> room_bytes() const noexcept;

  // Reserves space for `bytes` bytes from the beginning, so that a full disk shows now. Where the
  // file system cannot, nothing happens.
  void allocate(std::uint64_t bytes);
  // The same inside a fault for what lies behind `from`, and makes the file so long; of one in
  // memory that alone. False: there is no room.
  bool try_to_grow(std::uint64_t from, std::uint64_t bytes) noexcept;
  // For writes up to `end` to come: writes that make a file longer wait for each other (ext4), so
  // one that is being made is made longer ahead of them, a good deal at a time, without space. It
  // has to be cut to size before publish(). Small files and others are left alone. Inside faults;
  // one thread at a time.
  void grow_ahead(std::uint64_t end) noexcept;
  void truncate(std::uint64_t bytes);
  void sync();
  // Gives back the space of a range, which then reads as zeros. False where the file system cannot.
  bool punch_hole(std::uint64_t offset, std::uint64_t bytes) noexcept;

  // Gives a created file its name, at once and whole. With `durable`, the name too has reached the
  // disk when this returns. When only that fails, or what the replaced file passes on cannot be
  // set, the file has its name all the same, and the error says so. Nothing to do for other files.
  void publish(bool durable);
  // The same in three steps, for files that are to appear together: what may fail for want of room
  // or permission, also of writes that were taken before; one rename or link; and what is left when
  // the file is in place.
  void prepare_name();
  void take_name();
  void settle_name(bool durable);

 private:
  void create_in_place(const std::string& target, const CreateOptions& options);
  void look(bool writing);
  // How direct I/O is tried: a new file may be written to.
  enum class Trial : std::uint8_t { kRead, kWrite, kReadAndChange };
  void open_direct(Trial trial);
  // No file has more bytes than an offset can name.
  void expect_possible(std::uint64_t bytes, const char* operation) const;
  [[noreturn]] void fail(const std::string& operation) const;
  [[noreturn]] void fail(const std::string& operation, int error) const;

  std::string name_;                   // path, final path or description
  std::unique_ptr<OutputName> to_be_;  // the name of a file that was created, until the file has it
  std::unique_ptr<ContentsInPlace> contents_;  // or the file whose contents it will replace
  OpenFolder unsynced_;  // of a file that may have been made, until it is synced
  os::Descriptor file_;
  os::Descriptor direct_;
  std::string refusal_;
  std::size_t alignment_ = 1;
  bool seekable_ = true;
  bool in_memory_ = false;
  std::uint64_t begin_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t grown_ = 0;  // the length up to which writes do not grow the file
};

// Gives files that are whole their names in order, together as far as that can be: all are prepared
// before the first gets its name. Throws Error; where a name cannot be taken, the files in front of
// that are in place, and the error says how many.
VORTEX_EXPORT void publish_together(const std::vector<BlockFile*>& files, bool durable);

}}  // namespace vortex::v0
