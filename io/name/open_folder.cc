#include "io/name/open_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "io/name/path_names.h"

namespace vortex { inline namespace v0 {

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

}}  // namespace vortex::v0
