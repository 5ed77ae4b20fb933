// The folder of a file, held open: whatever it is called later, it is the one.
#pragma once

#include <string>

#include "vortex/os/descriptor.h"

namespace vortex { inline namespace v0 {

class OpenFolder {
 public:
  OpenFolder() = default;
  // The folder that the file at `path` lies or will lie in, whose links have been followed. Where
  // it cannot be opened the object is empty, and errno says why.
  explicit OpenFolder(const std::string& path);

  explicit operator bool() const noexcept { return static_cast<bool>(folder_); }
  // For calls such as openat(2).
  int descriptor() const noexcept { return folder_.get(); }

  // The names in it have reached the disk when this returns 0; an errno value otherwise. `file` is
  // a descriptor of a file in it. Blocks.
  int sync(int file) const noexcept;

 private:
  os::Descriptor folder_;
  bool readable_ = false;
};

}}  // namespace vortex::v0
