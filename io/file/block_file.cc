#include "io/file/block_file.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "io/file/path_names.h"
#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

// What file systems that do not tell are content with.
constexpr std::size_t kUsualAlignment = 4096;

std::string base_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string by_descriptor(int file) { return "/proc/self/fd/" + std::to_string(file); }

// A name in the same folder that nobody else uses, hidden, and telling where it came from, if that
// is short: the whole may be as long as the file system allows the name of a file to be.
std::string temporary_name_for(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  constexpr std::size_t kMostOfTheName = 64;
  return folder_of(path) + "/." + base_of(path).substr(0, kMostOfTheName) + "." +
         std::to_string(getpid()) + "-" + std::to_string(counter.fetch_add(1)) + ".part";
}

// Throws what a rename over the file would fail with, while nothing has been done that could be
// lost.
void expect_replaceable(const std::string& path, const struct stat& existing) {
  const auto refuse = [&path](int error, const std::string& reason) {
    throw Error(error, "replace '" + path + "', " + reason);
  };
  struct stat named {};
  if (stat(path.c_str(), &named) != 0 || named.st_dev != existing.st_dev ||
      named.st_ino != existing.st_ino) {
    refuse(ENOENT, "which is open and has no name any more");
  }
  struct statx status {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS, &status) == 0) {
    if ((status.stx_attributes & STATX_ATTR_IMMUTABLE) != 0) refuse(EPERM, "which is immutable");
    if ((status.stx_attributes & STATX_ATTR_APPEND) != 0) {
      refuse(EPERM, "to which can only be appended");
    }
    if ((status.stx_attributes_mask & status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
      refuse(EBUSY, "on which something is mounted: write beside it, and copy");
    }
  }
  // A rename does not ask for that, but whoever took the permission away meant the contents.
  if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    refuse(errno, "which may not be written to");
  }
  struct stat folder {};
  const uid_t me = geteuid();
  if (me != 0 && stat(folder_of(path).c_str(), &folder) == 0 && (folder.st_mode & S_ISVTX) != 0 &&
      existing.st_uid != me && folder.st_uid != me) {
    refuse(EPERM, "somebody else's file in a folder where only owners may (sticky)");
  }
}

// Passes owner, group and mode on, as far as the process may: a file that changes its owner does
// not go on lending that owner's rights.
bool pass_on(int file, const struct stat& existing) {
  mode_t mode = existing.st_mode & 07777;
  struct stat created {};
  if (fstat(file, &created) != 0) return false;
  if (created.st_uid != existing.st_uid || created.st_gid != existing.st_gid) {
    if (fchown(file, existing.st_uid, existing.st_gid) != 0) mode &= 0777;
  }
  return fchmod(file, mode) == 0;
}

// Repeats what a signal has interrupted: tmpfs gives up allocating when a timer's comes.
template <typename Call>
int uninterrupted(Call call) {
  int result = 0;
  do {
    result = call();
  } while (result != 0 && errno == EINTR);
  return result;
}

struct Descriptor {
  const int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

struct FreeDeleter {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

}  // namespace

BlockFile::~BlockFile() { close(); }

BlockFile::BlockFile(BlockFile&& other) noexcept { *this = std::move(other); }

BlockFile& BlockFile::operator=(BlockFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  name_ = std::move(other.name_);
  temporary_name_ = std::exchange(other.temporary_name_, {});
  creator_pid_ = other.creator_pid_;
  to_be_published_ = std::exchange(other.to_be_published_, false);
  unnamed_ = other.unnamed_;
  replace_ = other.replace_;
  owned_ = other.owned_;
  file_ = std::exchange(other.file_, -1);
  direct_ = std::exchange(other.direct_, -1);
  refusal_ = std::move(other.refusal_);
  alignment_ = other.alignment_;
  seekable_ = other.seekable_;
  length_ = other.length_;
  return *this;
}

void BlockFile::close() noexcept {
  // A forked child has the object, and its parent goes on with the file.
  if (!temporary_name_.empty() && getpid() == creator_pid_) unlink(temporary_name_.c_str());
  temporary_name_.clear();
  if (direct_ >= 0) ::close(direct_);
  if (file_ >= 0 && owned_) ::close(file_);
  file_ = direct_ = -1;
}

void BlockFile::fail(const std::string& operation, int error) const {
  throw Error(error, operation + " '" + name_ + "'");
}

void BlockFile::fail(const std::string& operation) const { fail(operation, errno); }

BlockFile BlockFile::open(const std::string& path, bool direct) {
  BlockFile file;
  file.name_ = path;
  file.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file.file_ < 0) file.fail("open");
  file.look(false);
  if (direct) file.open_direct(false);
  return file;
}

BlockFile BlockFile::create(const std::string& path, const CreateOptions& options) {
  BlockFile file;
  file.name_ = path;
  file.replace_ = options.replace;
  file.creator_pid_ = getpid();
  struct stat existing {};
  const bool exists = stat(path.c_str(), &existing) == 0;
  // What cannot be a name now cannot be one when everything has been written, either.
  if (!exists && (errno != ENOENT || path.empty())) file.fail("create");
  if (exists && !S_ISREG(existing.st_mode)) {
    file.file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file.file_ < 0) file.fail("open for writing");
    file.look(true);
    if (options.direct) file.open_direct(true);  // says why not
    return file;
  }
  if (exists && !options.replace) file.fail("create", EEXIST);
  // The file gives way, not the links that lead to it.
  const std::string target = followed_links(path);
  file.name_ = target;
  if (exists) expect_replaceable(target, existing);
  file.file_ = ::open(folder_of(target).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, options.mode);
  // A file without a name gets one by way of /proc.
  if (file.file_ >= 0 && access(by_descriptor(file.file_).c_str(), F_OK) != 0) {
    ::close(file.file_);
    file.file_ = -1;
  }
  file.unnamed_ = file.file_ >= 0;
  if (!file.unnamed_) {
    file.temporary_name_ = temporary_name_for(target);
    file.file_ =
        ::open(file.temporary_name_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, options.mode);
    if (file.file_ < 0) {
      const int error = errno;
      file.temporary_name_.clear();
      if (error != EACCES) file.fail("create", error);
      throw Error(error, "create '" + path + "': its folder '" + folder_of(target) +
                             "' may not be written to");
    }
  }
  if (exists && !pass_on(file.file_, existing)) file.fail("set the mode of");
  file.to_be_published_ = true;
  file.look(true);
  if (options.direct) file.open_direct(true);
  return file;
}

BlockFile BlockFile::temporary(const std::string& folder, bool direct) {
  BlockFile file;
  file.name_ = folder + "/(temporary)";
  file.file_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file.file_ < 0) {
    const std::string path = temporary_name_for(folder + "/vortex");
    file.file_ = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file.file_ < 0) throw Error(errno, "create a temporary file in '" + folder + "'");
    unlink(path.c_str());
  }
  file.look(true);
  if (direct) file.open_direct(true);
  return file;
}

BlockFile BlockFile::borrow(int descriptor, std::string name, bool writing) {
  BlockFile file;
  file.name_ = std::move(name);
  file.file_ = descriptor;
  file.owned_ = false;
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) file.fail("use");
  // A wait at the wrong end of a pipe would never end.
  if ((flags & O_ACCMODE) == (writing ? O_RDONLY : O_WRONLY)) {
    file.fail(writing ? "write to" : "read", EBADF);
  }
  file.look(writing);
  return file;
}

void BlockFile::look(bool writing) {
  struct stat status {};
  if (fstat(file_, &status) != 0) fail("stat");
  if (S_ISDIR(status.st_mode)) fail(writing ? "write to" : "read", EISDIR);
  if (S_ISREG(status.st_mode)) {
    length_ = static_cast<std::uint64_t>(status.st_size);
    seekable_ = owned_ || lseek(file_, 0, SEEK_CUR) == 0;
    // Files made up on the fly say that they are empty, as in /proc, or that they have a page, as
    // in /sys. That they cannot be read there, if so, reading in order will tell.
    char byte = 0;
    if (!writing && length_ == 0 && pread(file_, &byte, 1, 0) != 0) seekable_ = false;
    if (!writing && length_ > 0 && status.st_blocks == 0 &&
        pread(file_, &byte, 1, status.st_size - 1) == 0) {
      seekable_ = false;
    }
    // Output to a borrowed descriptor goes where its position and O_APPEND say.
    if (!owned_ && writing) seekable_ = false;
  } else if (S_ISBLK(status.st_mode) && !writing) {
    const off_t end = lseek(file_, 0, SEEK_END);
    lseek(file_, 0, SEEK_SET);
    length_ = end > 0 ? static_cast<std::uint64_t>(end) : 0;
  } else {
    seekable_ = false;
  }
}

void BlockFile::open_direct(bool writing) {
  if (!seekable_) {
    refusal_ = "not a file that is read and written at any offset";
    return;
  }
  alignment_ = kUsualAlignment;
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (syscall(SYS_statx, file_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    if (status.stx_dio_offset_align == 0) {
      refusal_ = "the file system has no direct I/O for this file (STATX_DIOALIGN)";
      alignment_ = 1;
      return;
    }
    alignment_ =
        std::max<std::size_t>({512, status.stx_dio_offset_align, status.stx_dio_mem_align});
  }
#endif
  direct_ =
      ::open(by_descriptor(file_).c_str(), (writing ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
  int error = direct_ < 0 ? errno : 0;
  if (error == 0) {
    // Some file systems accept the flag and refuse the transfers.
    const std::unique_ptr<void, FreeDeleter> sector(std::aligned_alloc(
        std::max(alignment_, kUsualAlignment), std::max(alignment_, kUsualAlignment)));
    if (sector == nullptr) fail("no memory to try direct I/O on", ENOMEM);
    std::memset(sector.get(), 0, alignment_);
    const ssize_t moved = writing ? pwrite(direct_, sector.get(), alignment_, 0)
                                  : pread(direct_, sector.get(), alignment_, 0);
    if (moved < 0) error = errno;
  }
  if (error == 0) return;
  if (direct_ >= 0) ::close(direct_);
  direct_ = -1;
  alignment_ = 1;
  if (error == ENOSPC) fail("write the first sector of", error);
  refusal_ = "direct I/O is refused: " + std::generic_category().message(error);
}

std::uint64_t BlockFile::free_bytes() const {
  struct statvfs status {};
  if (fstatvfs(file_, &status) != 0) fail("statvfs");
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

std::uint64_t BlockFile::room_bytes() const {
  struct stat status {};
  if (fstat(file_, &status) != 0) fail("stat");
  constexpr std::uint64_t kUnitOfStat = 512;
  return free_bytes() + static_cast<std::uint64_t>(status.st_blocks) * kUnitOfStat;
}

void BlockFile::allocate(std::uint64_t bytes) {
  if (bytes == 0 || !seekable_) return;
  // Asked for too much, file systems first hand out all they have.
  if (bytes > room_bytes()) {
    throw Error(ENOSPC, "reserve " + format_bytes(bytes) + " for '" + name_ +
                            "': the file system has " + format_bytes(free_bytes()) + " left");
  }
  const auto length = static_cast<off_t>(bytes);
  if (uninterrupted([&] { return fallocate(file_, FALLOC_FL_KEEP_SIZE, 0, length); }) == 0) return;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return;
  fail("reserve " + format_bytes(bytes) + " for");
}

void BlockFile::truncate(std::uint64_t bytes) {
  const auto length = static_cast<off_t>(bytes);
  if (uninterrupted([&] { return ftruncate(file_, length); }) != 0) fail("truncate");
}

void BlockFile::sync() {
  // Descriptors that have nothing to sync, such as pipes, say EINVAL.
  if (uninterrupted([&] { return fsync(file_); }) != 0 && errno != EINVAL) fail("sync");
}

bool BlockFile::punch_hole(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) == 0;
}

void BlockFile::publish(bool durable) {
  if (!to_be_published_) return;
  // Before there is a name: without descriptors there will be none.
  const Descriptor folder{
      durable ? ::open(folder_of(name_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1};
  if (durable && folder.number < 0 && errno != EACCES) fail("open the folder of");
  if (unnamed_) {
    const std::string self = by_descriptor(file_);
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      if (errno != EEXIST || !replace_) fail("give its name to");
      temporary_name_ = temporary_name_for(name_);
      if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary_name_.c_str(), AT_SYMLINK_FOLLOW) !=
          0) {
        const int error = errno;
        temporary_name_.clear();
        fail("give a name to", error);
      }
    }
  }
  if (!temporary_name_.empty()) {
    const unsigned flags = replace_ ? 0 : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, temporary_name_.c_str(), AT_FDCWD, name_.c_str(), flags) != 0) {
      fail("rename into place");
    }
    temporary_name_.clear();
  }
  to_be_published_ = false;
  if (!durable) return;
  // A folder that may be written and not read is synced with all its file system.
  const int synced = folder.number >= 0 ? fsync(folder.number) : syncfs(file_);
  if (synced != 0 && errno != EINVAL) fail("sync the folder of");
}

}  // namespace vortex::inline v0
