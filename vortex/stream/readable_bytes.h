// How far an array can be read whose length only its end tells.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

[[noreturn]] inline void refuse_to_read_at(std::uint64_t offset, std::uint64_t reserved) {
  throw Error(ERANGE, "byte " + std::to_string(offset) + " lies beyond the " +
                          format_bytes(reserved) + " of address space that are reserved");
}

// readable_bytes() of InputStreamBase and FileReaderBase. The touch may leave this frame for a
// guarded scope, so nothing here has a destructor.
template <typename Array>
std::uint64_t readable_bytes(const Array& array, std::uint64_t reserved, std::size_t block_bytes,
                             std::uint64_t offset) {
  if (const auto length = array.length_bytes()) return *length;
  if (offset >= reserved) refuse_to_read_at(offset, reserved);
  static_cast<void>(*static_cast<const volatile std::byte*>(array.bytes() + offset));
  return array.length_bytes().value_or((offset / block_bytes + 1) * block_bytes);
}

}}  // namespace vortex::v0
