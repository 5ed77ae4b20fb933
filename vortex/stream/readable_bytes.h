// How far an array can be read whose length only its end tells.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vortex::inline v0 {

// readable_bytes() of InputStreamBase and FileReaderBase. The touch may leave this frame for a
// guarded scope, so nothing here has a destructor.
template <typename Array>
std::uint64_t readable_bytes(const Array& array, std::size_t block_bytes, std::uint64_t offset) {
  if (const auto length = array.length_bytes()) return *length;
  static_cast<void>(*static_cast<const volatile std::byte*>(array.bytes() + offset));
  return array.length_bytes().value_or((offset / block_bytes + 1) * block_bytes);
}

}  // namespace vortex::inline v0
