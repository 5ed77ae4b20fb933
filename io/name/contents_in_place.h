// A file whose contents are to be replaced in place when the new ones are whole.
#pragma once

#include <string>

#include "vortex/os/descriptor.h"

namespace vortex { inline namespace v0 {

// The file keeps its place in the folder, its other names (hard links), owner and rights. The new
// contents wait in a file without a name, so that whatever is read until then may be read from the
// file itself, and are copied at the end: while that lasts, others see a part of both.
//
// prepare(), then take() and settle(), each once and in this order.
class ContentsInPlace {
 public:
  // Opens a regular file for writing, without changing it. Throws Error.
  explicit ContentsInPlace(const std::string& path);

  // Reserves room for what `whole`, open for reading, has. Throws Error(ENOSPC) and nothing has
  // changed.
  void prepare(int whole) const;
  // Copies it. Throws Error, which says that the file is not whole.
  void take(int whole) const;
  // With `durable`, the contents have reached the disk when this returns. Throws Error.
  void settle(bool durable) const;

 private:
  const std::string path_;
  const os::Descriptor file_;
};

}}  // namespace vortex::v0
