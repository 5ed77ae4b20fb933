#include "io/name/open_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/name/path_names.h"
#include "io/name/uninterrupted.h"

namespace vortex { inline namespace v0 {

OpenFolder::OpenFolder(const std::string& path) {
  const std::string folder = folder_of(path);
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  readable_ = descriptor_ >= 0;
  // A folder that may be written to and not read.
  if (descriptor_ < 0 && errno == EACCES) {
    descriptor_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
}

OpenFolder::~OpenFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFolder::OpenFolder(OpenFolder&& other) noexcept { *this = std::move(other); }

OpenFolder& OpenFolder::operator=(OpenFolder&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(readable_, other.readable_);
  return *this;
}

int OpenFolder::sync(int file) const noexcept {
  // One that cannot be read is synced with all its file system.
  const int synced = uninterrupted([&] { return readable_ ? fsync(descriptor_) : syncfs(file); });
  // Some file systems have nothing to sync of a folder.
  return synced == 0 || errno == EINVAL ? 0 : errno;
}

}}  // namespace vortex::v0
