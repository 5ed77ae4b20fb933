#include "sort/job/sort_output.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "io/file/path_names.h"
#include "io/file/single_file.h"
#include "sort/job/sort_room.h"
#include "vortex/error.h"

namespace vortex::inline v0 {
namespace {

BlockFile open_file(const std::string& path) {
  if (path == "-") return BlockFile::borrow(STDOUT_FILENO, "standard output", true);
  return BlockFile::create(path);
}

}  // namespace

std::string default_run_folder(const std::string& output) {
  struct stat target {};
  const bool stays_no_file = stat(output.c_str(), &target) == 0 && !S_ISREG(target.st_mode);
  return output == "-" || stays_no_file ? temporary_folder() : folder_of(followed_links(output));
}

SortOutput::SortOutput(const std::string& path) : file_(open_file(path)) {
  if (fstat(file_.descriptor(), &identity_) != 0) throw Error(errno, "stat '" + name() + "'");
  if (path != "-" && S_ISREG(identity_.st_mode)) folder_ = folder_of(name());
}

void SortOutput::expect_room(std::uint64_t bytes) const {
  std::optional<std::uint64_t> room;
  if (S_ISBLK(identity_.st_mode)) {
    std::uint64_t size = 0;
    if (ioctl(file_.descriptor(), BLKGETSIZE64, &size) != 0) return;
    // Standard output is written from where it stands.
    const off_t position = lseek(file_.descriptor(), 0, SEEK_CUR);
    room = size - std::min(size, static_cast<std::uint64_t>(std::max<off_t>(position, 0)));
  } else if (S_ISREG(identity_.st_mode)) {
    // What a borrowed descriptor's file holds may be overwritten.
    room = file_.room_bytes();
  } else {
    return;
  }
  if (!room || *room >= bytes) return;
  throw Error(ENOSPC, "the output takes " + format_bytes(bytes) + ", and " +
                          (S_ISBLK(identity_.st_mode)
                               ? "the device '" + name() + "' holds "
                               : "the file system of '" + name() + "' has room for ") +
                          format_bytes(*room));
}

FileWriterBase SortOutput::open_writer(const FileWriterOptions& options) {
  return FileWriterBase(std::make_unique<SingleFile>(std::move(file_), options.disk), options);
}

}  // namespace vortex::inline v0
