#include "io/file/block_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "io/name/path_names.h"
#include "vortex/error.h"
#include "vortex/os/memory.h"
#include "vortex/os/write_signals.h"

namespace vortex { inline namespace v0 {

namespace {

// The alignment that is assumed where the file system does not tell: all of them accept it.
constexpr std::size_t kUsualAlignment = 4096;

// With the 64 KiB that a pipe holds by default its ends wait for each other all the time. Larger
// pipes than this are no faster, and a user may have pipes of 64 MiB in all.
constexpr int kPipeBytes = 256 << 10;

// Where the system refuses it, the pipe stays as it is.
void enlarge_pipe(int pipe) noexcept {
  if (fcntl(pipe, F_GETPIPE_SZ) < kPipeBytes) fcntl(pipe, F_SETPIPE_SZ, kPipeBytes);
}

// What RLIMIT_FSIZE has to do with an error.
std::string limit_behind(int error) {
  rlimit limit{};
  if (error != EFBIG || getrlimit(RLIMIT_FSIZE, &limit) != 0) return {};
  if (limit.rlim_cur == RLIM_INFINITY) return {};
  return ": RLIMIT_FSIZE is " + format_bytes(limit.rlim_cur) + "; raise it (ulimit -f)";
}

bool is_in_memory(int file) noexcept {
  struct statfs system {};
  return fstatfs(file, &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

// A file without a name; none: errno says why not.
os::Descriptor open_temporary(const std::string& folder) {
  os::Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string name;
  const int error = take_temporary_name("vortex", name, [&](const std::string& candidate) {
    const std::string path = folder + "/" + candidate;
    file = os::Descriptor(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
    if (!file) return errno;
    unlink(path.c_str());  // at once: without memory for anything else the file would stay
    return 0;
  });
  errno = error;
  return file;
}

// Errors of a folder, or of a mount, that say nothing about what the file itself allows.
bool forbids_new_name(const Error& error) noexcept {
  const int value = error.code().value();
  return value == EACCES || value == EPERM || value == EROFS || value == EBUSY;
}

// Behind a call that failed: whether it is to be made again, which a descriptor that does not block
// has to be ready for.
bool try_again(int descriptor, short event) noexcept {
  if (errno == EINTR) return true;
  if (errno != EAGAIN) return false;
  pollfd one{descriptor, event, 0};
  return poll(&one, 1, -1) >= 0 || errno == EINTR;
}

}  // namespace

BlockFile::BlockFile() noexcept = default;
BlockFile::~BlockFile() = default;
BlockFile::BlockFile(BlockFile&&) noexcept = default;
BlockFile& BlockFile::operator=(BlockFile&&) noexcept = default;

void BlockFile::fail(const std::string& operation, int error) const {
  throw Error(error, operation + " '" + name_ + "'" + limit_behind(error));
}

void BlockFile::fail(const std::string& operation) const { fail(operation, errno); }

BlockFile BlockFile::open(const std::string& path, bool direct) {
  BlockFile file;
  file.name_ = path;
  file.file_ = os::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) file.fail("open");
  file.look(false);
  if (direct) file.open_direct(Trial::kRead);
  return file;
}

BlockFile BlockFile::open_to_change(const std::string& path, bool make, bool direct) {
  BlockFile file;
  file.name_ = path;
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOCTTY;
  if (make) {
    // The folder that the name is made in, or was not long ago.
    const std::string target = followed_links(path);
    const std::string base = name_in_folder(target);
    file.unsynced_ = OpenFolder(target);
    file.file_ = os::Descriptor(
        file.unsynced_ && !base.empty()
            ? openat(file.unsynced_.descriptor(), base.c_str(), kFlags | O_CREAT, 0666)
            : ::open(path.c_str(), kFlags | O_CREAT, 0666));
  } else {
    file.file_ = os::Descriptor(::open(path.c_str(), kFlags));
  }
  if (!file) file.fail("open to change");
  file.look(false);
  if (!file.seekable_) file.fail("change in place", ESPIPE);
  if (direct) file.open_direct(Trial::kReadAndChange);
  return file;
}

BlockFile BlockFile::create(const std::string& path, const CreateOptions& options) {
  BlockFile file;
  file.name_ = path;
  struct stat existing {};
  const bool exists = stat(path.c_str(), &existing) == 0;
  // A path that cannot name a file now cannot name one when everything has been written, either.
  if (!exists && (errno != ENOENT || path.empty())) file.fail("create");
  if (exists && !S_ISREG(existing.st_mode)) {
    file.file_ = os::Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!file) file.fail("open for writing");
    file.look(true);
    if (options.direct) file.open_direct(Trial::kWrite);  // says why not
    return file;
  }
  if (exists && !options.replace) file.fail("create", EEXIST);
  // The file gives way, not the links that lead to it.
  const std::string target = followed_links(path);
  file.name_ = target;
  try {
    if (exists && options.in_place == InPlace::kAlways) {
      file.create_in_place(target, options);
    } else {
      file.to_be_ =
          std::make_unique<OutputName>(target, exists ? &existing : nullptr, options.replace);
      file.file_ = file.to_be_->create(options.mode, options.may_have_name);
    }
  } catch (const Error& error) {
    if (!exists || options.in_place != InPlace::kWhereNeeded || !forbids_new_name(error)) throw;
    file.to_be_.reset();
    file.create_in_place(target, options);
  }
  file.look(true);
  if (options.direct) file.open_direct(Trial::kWrite);
  return file;
}

void BlockFile::create_in_place(const std::string& target, const CreateOptions& options) {
  contents_ = std::make_unique<ContentsInPlace>(target);
  const std::string folders[] = {folder_of(target), options.waiting_folder};
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    file_ = open_temporary(folder);
    if (file_) return;
  }
  throw Error(errno, "write in place to '" + target +
                         "': no folder takes a file in which the new contents can wait");
}

BlockFile BlockFile::temporary(const std::string& folder, bool direct) {
  BlockFile file;
  file.name_ = folder + "/(temporary)";
  file.file_ = open_temporary(folder);
  if (!file) throw Error(errno, "create a temporary file in '" + folder + "'");
  file.look(true);
  if (direct) file.open_direct(Trial::kWrite);
  return file;
}

BlockFile BlockFile::borrow(int descriptor, std::string name, bool writing) {
  BlockFile file;
  file.name_ = std::move(name);
  file.file_ = os::Descriptor(descriptor, false);
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) file.fail("use");
  // A wait at the wrong end of a pipe would never end.
  if ((flags & O_ACCMODE) == (writing ? O_RDONLY : O_WRONLY)) {
    file.fail(writing ? "write to" : "read", EBADF);
  }
  file.look(writing);
  return file;
}

BlockFile BlockFile::lend() const {
  BlockFile file;
  file.name_ = name_;
  file.file_ = os::Descriptor(descriptor(), false);
  file.seekable_ = seekable_;
  file.begin_ = begin_;
  file.length_ = length_;
  return file;
}

BlockFile BlockFile::lend_first(std::uint64_t bytes) const {
  BlockFile file = lend();
  file.direct_ = os::Descriptor(direct_descriptor(), false);
  file.alignment_ = alignment_;
  file.in_memory_ = in_memory_;
  file.length_ = bytes;
  return file;
}

void BlockFile::look(bool writing) {
  struct stat status {};
  if (fstat(descriptor(), &status) != 0) fail("stat");
  if (S_ISDIR(status.st_mode)) fail(writing ? "write to" : "read failed:", EISDIR);
  if (S_ISFIFO(status.st_mode)) enlarge_pipe(descriptor());
  // Output to a borrowed descriptor goes where its position and O_APPEND say.
  const bool offsets = S_ISREG(status.st_mode) || (S_ISBLK(status.st_mode) && !writing);
  seekable_ = offsets && (file_.owned() || !writing);
  if (!seekable_) return;
  in_memory_ = is_in_memory(descriptor());
  if (S_ISREG(status.st_mode)) {
    length_ = static_cast<std::uint64_t>(status.st_size);
  } else if (ioctl(descriptor(), BLKGETSIZE64, &length_) != 0) {
    fail("ask for the size of");
  }
  const off_t position = file_.owned() ? 0 : lseek(descriptor(), 0, SEEK_CUR);
  if (position < 0) fail("ask for the position of");
  // Files made up on the fly say that they are empty, as in /proc, or that they have a page, as in
  // /sys. If they cannot be read at an offset, reading in order will tell.
  char byte = 0;
  if (!writing && length_ == 0 && pread(descriptor(), &byte, 1, 0) != 0) seekable_ = false;
  if (!writing && S_ISREG(status.st_mode) && length_ > 0 && status.st_blocks == 0 &&
      pread(descriptor(), &byte, 1, status.st_size - 1) == 0) {
    seekable_ = false;
  }
  if (!seekable_) {
    length_ = 0;
    return;
  }
  begin_ = std::min(static_cast<std::uint64_t>(position), length_);
  length_ -= begin_;
}

void BlockFile::open_direct(Trial trial) {
  if (!seekable_) {
    refusal_ = "not a file that is read and written at any offset";
    return;
  }
  alignment_ = kUsualAlignment;
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (syscall(SYS_statx, descriptor(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
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
  // Of a descriptor that somebody has read from.
  if (begin_ % alignment_ != 0) {
    refusal_ = "its data begin at no multiple of " + std::to_string(alignment_) + " bytes";
    alignment_ = 1;
    return;
  }
  direct_ =
      os::Descriptor(::open(PathOfDescriptor(descriptor()).c_str(),
                            (trial == Trial::kRead ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC));
  int error = direct_ ? 0 : errno;
  if (error == 0) {
    // Some file systems accept the flag and refuse the transfers.
    const std::unique_ptr<void, os::FreeDeleter> sector(std::aligned_alloc(
        std::max(alignment_, kUsualAlignment), std::max(alignment_, kUsualAlignment)));
    if (sector == nullptr) fail("no memory to try direct I/O on", ENOMEM);
    std::memset(sector.get(), 0, alignment_);
    const ssize_t moved = os::without_size_signal([&] {
      return trial == Trial::kWrite ? pwrite(direct_.get(), sector.get(), alignment_, 0)
                                    : pread(direct_.get(), sector.get(), alignment_, 0);
    });
    if (moved < 0) error = errno;
  }
  if (error == 0) return;
  direct_ = {};
  alignment_ = 1;
  if (error == ENOSPC || error == EFBIG) fail("write the first sector of", error);
  refusal_ = "direct I/O is refused: " + std::generic_category().message(error);
}

void BlockFile::write_all(std::string_view bytes) {
  const os::WithoutWriteSignals without;
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor(), bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0) {
      fail("nothing was written to", EIO);
    } else if (!try_again(descriptor(), POLLOUT)) {
      fail("write failed:");
    }
  }
}

void BlockFile::sync() {
  // Descriptors that have nothing to sync, such as pipes, say EINVAL.
  if (os::uninterrupted([&] { return fsync(descriptor()); }) != 0 && errno != EINVAL) fail("sync");
  if (!unsynced_) return;
  if (const int error = unsynced_.sync(descriptor())) fail("sync the folder of", error);
  unsynced_ = {};
}

void BlockFile::prepare_name() {
  if ((to_be_ || contents_) && !os::writes_have_ended_well(descriptor())) fail("write failed:");
  if (to_be_) to_be_->prepare(descriptor());
  if (contents_) contents_->prepare(descriptor());
}

void BlockFile::take_name() {
  if (to_be_) to_be_->take(descriptor());
  if (contents_) contents_->take(descriptor());
}

void BlockFile::settle_name(bool durable) {
  if (const auto contents = std::move(contents_)) contents->settle(durable);
  if (const auto taken = std::move(to_be_)) taken->settle(descriptor(), durable);
}

void BlockFile::publish(bool durable) {
  prepare_name();
  take_name();
  settle_name(durable);
}

void publish_together(const std::vector<BlockFile*>& files, bool durable) {
  for (BlockFile* const file : files) file->prepare_name();
  for (std::size_t i = 0; i < files.size(); ++i) {
    try {
      files[i]->take_name();
    } catch (const Error& error) {
      if (i == 0) throw;
      throw Error(error.code().value(), std::string(error.message()) + "; the first " +
                                            std::to_string(i) + " of " +
                                            std::to_string(files.size()) +
                                            " parts are in place, and the others are as they were");
    }
  }
  std::exception_ptr first;
  for (BlockFile* const file : files) {
    try {
      file->settle_name(durable);
    } catch (...) {  // the names of the others are to be on the disk nevertheless
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}}  // namespace vortex::v0
