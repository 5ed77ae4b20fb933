// Whether memory is there, asked without touching it: no handler notices.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <system_error>

namespace vortex::test {

// The byte at `address`, as a system call reads it; none where it could not.
inline std::optional<std::byte> byte_at(const void* address) {
  int ends[2];
  if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::byte byte{};
  const bool is_there = write(ends[1], address, 1) == 1 && read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  if (!is_there) return std::nullopt;
  return byte;
}

// Whether a system call could read it.
inline bool readable(const void* address) { return byte_at(address).has_value(); }

}  // namespace vortex::test
