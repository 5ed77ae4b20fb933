// Files of numbers, which are added up.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include "vortex/file_writer.h"

namespace vortex::bench {

[[noreturn]] inline void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : descriptor_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail(path);
  }
  ~Descriptor() { close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return descriptor_; }

 private:
  int descriptor_;
};

// 0, 1, 2 … in so many bytes, unless there is a file of that name.
inline void make_number_file(const std::string& path, std::uint64_t bytes) {
  if (access(path.c_str(), F_OK) == 0) return;
  const std::uint64_t count = bytes / sizeof(std::uint64_t);
  FileWriter<std::uint64_t> out(path, {.sync = true, .expected_bytes = bytes});
  for (std::uint64_t i = 0; i < count; ++i) out.data()[i] = i;
  out.finish(count);
}

// Of 0 ... count - 1.
constexpr std::uint64_t sum_of_first(std::uint64_t count) {
  return count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count;
}

inline void drop_from_cache(const std::string& path) {
  posix_fadvise(Descriptor(path, O_RDONLY), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace vortex::bench
