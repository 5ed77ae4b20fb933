// Whether the file systems have room for a sort.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace vortex {

// The file system that a folder lies in. Throws Error: ENOTDIR, and what stat(2) reports.
dev_t file_system_of(const std::string& folder);

// $TMPDIR, or /tmp.
std::string temporary_folder();

// Adds up what will be written, each file system counted once.
class RoomNeeds {
 public:
  // These throw Error as file_system_of() does.
  void add(const std::string& folder, std::uint64_t bytes);
  bool counted(const std::string& folder) const;

  // Throws Error(ENOSPC) that names the folder, what is left there and what is needed.
  void expect() const;

 private:
  struct Need {
    std::string folder;
    std::uint64_t bytes = 0;
  };
  std::map<dev_t, Need> needs_;
};

}  // namespace vortex
