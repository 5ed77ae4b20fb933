// Touches of files that could not be served, as exceptions of the thread that touched.
#pragma once

#include <vortex/stream.h>

#include <cstdint>
#include <string>

#include "module.h"

namespace vortex_python {

// While it lives, touches of the stream that cannot be served find zeros, and an exception follows
// at once: see Stream::fill_on_failure().
class OpenFile {
 public:
  OpenFile(std::string name, vortex::Stream& filled);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string path;
  vortex::Stream& stream;

 private:
  static void note(void* number, const vortex::Failure& failure) noexcept;

  std::uint64_t number_ = 0;
};

}  // namespace vortex_python
