#include "io/name/path_names.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

constexpr int kMaxLinks = 40;

}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_in_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string path_of_descriptor(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

std::string followed_links(const std::string& path) {
  struct stat target {};
  if (stat(path.c_str(), &target) == 0 && !S_ISREG(target.st_mode)) return path;
  std::string followed = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    std::array<char, 4096> buffer{};
    const ssize_t length = readlink(followed.c_str(), buffer.data(), buffer.size());
    // Not a link, or nothing there: what is wrong, if anything is, shows when it is opened.
    if (length < 0) return followed;
    const std::string next(buffer.data(), static_cast<std::size_t>(length));
    followed = next.starts_with('/') ? next : folder_of(followed) + "/" + next;
  }
  throw Error(ELOOP, "follow '" + path + "'");
}

}}  // namespace vortex::v0
