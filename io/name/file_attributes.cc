#include "io/name/file_attributes.h"

#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace vortex { inline namespace v0 {

namespace {

constexpr const char* kAccessList = "system.posix_acl_access";

// Rights lent to a program for what it is, and hashes and signatures of the contents.
constexpr std::array<std::string_view, 3> kAboutTheContents = {"security.capability",
                                                               "security.evm", "security.ima"};

bool about_the_contents(std::string_view name) {
  return std::find(kAboutTheContents.begin(), kAboutTheContents.end(), name) !=
         kAboutTheContents.end();
}

// Whether reading an attribute has failed because there is none, or no such call, as in a sandbox.
bool are_none(int error) noexcept {
  return error == ENODATA || error == EOPNOTSUPP || error == ENOSYS || error == EPERM;
}

}  // namespace

FileAttributes::FileAttributes(const std::string& path, const struct stat& status)
    : status_(status) {
  constexpr std::size_t kMaxBytes = 65536;  // of a list and of a value, says the kernel
  std::vector<char> names(kMaxBytes);
  std::vector<char> value(kMaxBytes);
  const ssize_t length = listxattr(path.c_str(), names.data(), names.size());
  list_lost_ = length < 0 && !are_none(errno) &&
               (getxattr(path.c_str(), kAccessList, nullptr, 0) >= 0 || !are_none(errno));
  for (ssize_t at = 0; at < length;) {
    const std::string name = names.data() + at;
    at += static_cast<ssize_t>(name.size() + 1);
    if (about_the_contents(name)) continue;
    const ssize_t bytes = getxattr(path.c_str(), name.c_str(), value.data(), value.size());
    if (bytes < 0) {
      list_lost_ = list_lost_ || (name == kAccessList && !are_none(errno));
      continue;
    }
    extended_.emplace_back(name, std::string(value.data(), static_cast<std::size_t>(bytes)));
  }
}

int FileAttributes::give_to(int file) const noexcept {
  constexpr mode_t kEverybodyElse = 077;
  struct stat made {};
  if (fstat(file, &made) != 0) return errno;
  bool owner_kept = made.st_uid == status_.st_uid;
  bool group_kept = made.st_gid == status_.st_gid;
  if (!owner_kept || !group_kept) {
    if (fchown(file, status_.st_uid, status_.st_gid) == 0) {
      owner_kept = group_kept = true;
    } else if (!group_kept && fchown(file, static_cast<uid_t>(-1), status_.st_gid) == 0) {
      group_kept = true;
    }
  }
  mode_t mode = status_.st_mode & 07777;
  // A file that changes hands does not go on lending the old ones' rights.
  if (!owner_kept) mode &= ~mode_t{S_ISUID};
  if (!group_kept) {
    mode &= ~mode_t{S_ISGID};
    const mode_t both = mode >> 3 & mode & 7;
    mode = (mode & ~kEverybodyElse) | both << 3 | both;
  }
  bool had_list = list_lost_;
  bool list_kept = false;
  for (const auto& [name, value] : extended_) {
    const bool is_list = name == kAccessList;
    had_list = had_list || is_list;
    // With another group, the list's entry for the group would be about that one.
    if (is_list && !group_kept) continue;
    const bool kept = fsetxattr(file, name.c_str(), value.data(), value.size(), 0) == 0;
    list_kept = list_kept || (is_list && kept);
  }
  // The folder may have given the new file a list that the old one did not have.
  if (!had_list) {
    list_kept = fremovexattr(file, kAccessList) == 0 || errno == ENODATA || errno == EOPNOTSUPP;
  }
  // With a list, the mode's bits for the group are those for all whom it names.
  if (!list_kept) mode &= ~kEverybodyElse;
  if (fchmod(file, mode) == 0) return 0;
  const int error = errno;
  static_cast<void>(fchmod(file, mode & ~kEverybodyElse));
  return error;
}

}}  // namespace vortex::v0
