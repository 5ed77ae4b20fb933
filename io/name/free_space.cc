#include "io/name/free_space.h"

#include <sys/statvfs.h>

#include <cerrno>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

namespace {

std::optional<std::uint64_t> free_bytes_of(const struct statvfs& status) {
  if (status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace

std::optional<std::uint64_t> free_bytes_in(const std::string& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) {
    throw Error(errno, "ask how much room is left in '" + folder + "'");
  }
  return free_bytes_of(status);
}

std::optional<std::uint64_t> free_bytes_around(int file) noexcept {
  struct statvfs status {};
  if (fstatvfs(file, &status) != 0) return std::nullopt;
  return free_bytes_of(status);
}

}}  // namespace vortex::v0
