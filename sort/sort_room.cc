#include "sort/sort_room.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>

#include "vortex/error.h"

namespace vortex {
namespace {

std::uint64_t free_bytes_in(const std::string& folder) {
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) throw Error(errno, "look at '" + folder + "'");
  return std::uint64_t{room.f_bavail} * room.f_frsize;
}

}  // namespace

dev_t file_system_of(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) throw Error(errno, "look at '" + folder + "'");
  if (!S_ISDIR(status.st_mode)) throw Error(ENOTDIR, "keep runs in '" + folder + "'");
  return status.st_dev;
}

std::string temporary_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

void RoomNeeds::add(const std::string& folder, std::uint64_t bytes) {
  Need& need = needs_[file_system_of(folder)];
  need.folder = folder;
  need.bytes += bytes;
}

bool RoomNeeds::counted(const std::string& folder) const {
  return needs_.contains(file_system_of(folder));
}

void RoomNeeds::expect() const {
  for (const auto& [file_system, need] : needs_) {
    const std::uint64_t room = free_bytes_in(need.folder);
    if (room >= need.bytes) continue;
    throw Error(ENOSPC, "the file system of '" + need.folder + "' has " + format_bytes(room) +
                            " left, and the sort needs at least " + format_bytes(need.bytes) +
                            " there");
  }
}

}  // namespace vortex
