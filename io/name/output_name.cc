#include "io/name/output_name.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <unistd.h>

#include <cstdio>

#include "io/name/path_names.h"

namespace vortex { inline namespace v0 {

namespace {

int link_nameless(int file, int folder, const std::string& name) {
  return linkat(AT_FDCWD, PathOfDescriptor(file).c_str(), folder, name.c_str(),
                AT_SYMLINK_FOLLOW) == 0
             ? 0
             : errno;
}

}  // namespace

OpenFolder::OpenFolder(const std::string& path) {
  const std::string folder = folder_of(path);
  folder_ = os::Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  readable_ = static_cast<bool>(folder_);
  // A folder that may be written to and not read.
  if (!folder_ && errno == EACCES) {
    folder_ = os::Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
}

int OpenFolder::sync(int file) const noexcept {
  // One that cannot be read is synced with all its file system.
  const int synced =
      os::uninterrupted([&] { return readable_ ? fsync(descriptor()) : syncfs(file); });
  // Some file systems have nothing to sync of a folder.
  return synced == 0 || errno == EINVAL ? 0 : errno;
}

OutputName::OutputName(const std::string& path, const struct stat* existing, bool replace)
    : path_(path),
      base_(name_in_folder(path)),
      folder_(path),
      replace_(replace),
      creator_pid_(getpid()) {
  if (!folder_) fail("create", errno);
  if (existing == nullptr) return;
  expect_replaceable(*existing);
  passed_on_.emplace(path, *existing);
}

OutputName::~OutputName() {
  // A forked child has the object, and its parent goes on with the file.
  if (!temporary_.empty() && getpid() == creator_pid_) {
    unlinkat(folder_.descriptor(), temporary_.c_str(), 0);
  }
}

void OutputName::fail(const std::string& operation, int error) const {
  throw Error(error, operation + " '" + path_ + "'");
}

// Throws what a rename over the file would fail with.
void OutputName::expect_replaceable(const struct stat& existing) const {
  const auto refuse = [this](int error, const std::string& reason) {
    throw Error(error, "replace '" + path_ + "', " + reason);
  };
  struct stat named {};
  const bool found = fstatat(folder_.descriptor(), base_.c_str(), &named, 0) == 0;
  if (!found && errno != ENOENT) refuse(errno, "whose name cannot be looked up");
  if (!found || named.st_dev != existing.st_dev || named.st_ino != existing.st_ino) {
    refuse(ENOENT, "which is open and has no name any more");
  }
  struct statx status {};
  if (statx(folder_.descriptor(), base_.c_str(), 0, STATX_BASIC_STATS, &status) == 0) {
    if ((status.stx_attributes & STATX_ATTR_IMMUTABLE) != 0) refuse(EPERM, "which is immutable");
    if ((status.stx_attributes & STATX_ATTR_APPEND) != 0) {
      refuse(EPERM, "to which can only be appended");
    }
    if ((status.stx_attributes_mask & status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
      refuse(EBUSY, "on which something is mounted: write beside it, and copy");
    }
  }
  // A rename does not ask for that, but whoever took the permission away meant the contents.
  if (faccessat(folder_.descriptor(), base_.c_str(), W_OK, AT_EACCESS) != 0) {
    refuse(errno, "which may not be written to");
  }
  struct stat folder {};
  const uid_t me = geteuid();
  if (me != 0 && fstat(folder_.descriptor(), &folder) == 0 && (folder.st_mode & S_ISVTX) != 0 &&
      existing.st_uid != me && folder.st_uid != me) {
    refuse(EPERM, "somebody else's file in a folder where only owners may (sticky)");
  }
}

os::Descriptor OutputName::create(unsigned mode, bool may_have_name) {
  // Nobody looks into a file that takes the place of another before it has that one's rights.
  const mode_t now = passed_on_ ? 0600 : static_cast<mode_t>(mode);
  os::Descriptor file(openat(folder_.descriptor(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, now));
  // A folder that takes no file at all says so below.
  const bool forbidden = !file && (errno == EACCES || errno == EPERM || errno == EROFS);
  // A file without a name gets one by way of /proc.
  if (file && access(PathOfDescriptor(file.get()).c_str(), F_OK) == 0) return file;
  if (!may_have_name && !forbidden) throw NoNamelessFile(path_);
  const int error = take_temporary_name(base_, temporary_, [&](const std::string& name) {
    file = os::Descriptor(
        openat(folder_.descriptor(), name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, now));
    return file ? 0 : errno;
  });
  if (error == EACCES) {
    throw Error(error, "create '" + path_ + "': its folder '" + folder_of(path_) +
                           "' may not be written to");
  }
  if (error != 0) fail("create", error);
  if (!replace_) expect_no_replacing();
  return file;
}

int OutputName::link_in_folder(const std::string& from, const std::string& to) const noexcept {
  const int folder = folder_.descriptor();
  return linkat(folder, from.c_str(), folder, to.c_str(), 0) == 0 ? 0 : errno;
}

int OutputName::rename_in_folder(const std::string& from, const std::string& to,
                                 unsigned flags) const noexcept {
  const int folder = folder_.descriptor();
  const int renamed = flags == 0 ? renameat(folder, from.c_str(), folder, to.c_str())
                                 : renameat2(folder, from.c_str(), folder, to.c_str(), flags);
  return renamed == 0 ? 0 : errno;
}

// Not every file system can give a file a name that must be free: shows it on the temporary one.
void OutputName::expect_no_replacing() {
  std::string other;
  int error = take_temporary_name(
      base_, other, [this](const std::string& name) { return link_in_folder(temporary_, name); });
  if (error == 0) {
    unlinkat(folder_.descriptor(), other.c_str(), 0);
    return;
  }
  error = take_temporary_name(base_, other, [this](const std::string& name) {
    return rename_in_folder(temporary_, name, RENAME_NOREPLACE);
  });
  if (error != 0) {
    throw Error(error, "create '" + path_ +
                           "' and replace nothing: its file system has neither hard links nor "
                           "renaming that does not replace");
  }
  temporary_ = other;
}

int OutputName::link_to_temporary_name(int file) {
  return take_temporary_name(base_, temporary_, [&](const std::string& name) {
    return link_nameless(file, folder_.descriptor(), name);
  });
}

void OutputName::prepare(int file) {
  if (!passed_on_) return;
  if (temporary_.empty()) {
    if (const int error = link_to_temporary_name(file)) fail("give a name to", error);
  }
  mode_refusal_ = passed_on_->give_to(file);
}

void OutputName::take(int file) {
  if (temporary_.empty()) {
    const int error = link_nameless(file, folder_.descriptor(), base_);
    if (error == 0) return;
    if (error != EEXIST || !replace_) fail("give its name to", error);
    // There is one now.
    if (const int refusal = link_to_temporary_name(file)) fail("give a name to", refusal);
  }
  if (!replace_) {
    const int error = link_in_folder(temporary_, base_);
    if (error == 0) {
      if (unlinkat(folder_.descriptor(), temporary_.c_str(), 0) == 0) temporary_.clear();
      return;
    }
    if (error == EEXIST) fail("give its name to", error);
  }
  const unsigned flags = replace_ ? 0 : RENAME_NOREPLACE;
  if (const int error = rename_in_folder(temporary_, base_, flags)) {
    fail("rename into place", error);
  }
  temporary_.clear();
}

void OutputName::settle(int file, bool durable) const {
  const auto fail_in_place = [this](int error, const std::string& what) {
    throw Error(error, "'" + path_ + "' is whole and in place, but " + what);
  };
  if (durable) {
    if (const int error = folder_.sync(file)) {
      fail_in_place(
          error, "its folder cannot be synced: a crash of the system may yet take the name back");
    }
  }
  if (mode_refusal_ != 0) {
    std::string mode(8, '\0');
    mode.resize(static_cast<std::size_t>(
        std::snprintf(mode.data(), mode.size(), "%04o", unsigned{passed_on_->mode()})));
    fail_in_place(mode_refusal_,
                  "its mode cannot be set to " + mode + ", that of the file which it replaced");
  }
}

}}  // namespace vortex::v0
