// The attributes of a file beside its contents: owner, mode, access control list, extended ones.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

namespace vortex { inline namespace v0 {

// The attributes that a file passes on to the file that replaces it. Hard links cannot be passed
// on: the file's other names keep the old contents.
class FileAttributes {
 public:
  // Reads the attributes of the regular file at `path`, whose status stat(2) has told. Leaves out
  // extended attributes that this process cannot read; an access control list among them is lost.
  FileAttributes(const std::string& path, const struct stat& status);

  mode_t mode() const noexcept { return status_.st_mode & 07777; }

  // Gives them to an open file of this process's own, which was made with mode 0600. Where the
  // process may not give the file away, or the list cannot be kept, nobody gets more rights than
  // before: set-user-ID and set-group-ID go, a foreign group gets what everybody had as well, and
  // without its list the file is its owner's alone. Extended attributes that are refused, and those
  // that vouch for the old contents, are left out. Returns 0, or the errno value with which setting
  // the mode failed; the file is its owner's alone then.
  int give_to(int file) const noexcept;

 private:
  struct stat status_;
  bool list_lost_ = false;
  std::vector<std::pair<std::string, std::string>> extended_;  // name, value
};

}}  // namespace vortex::v0
