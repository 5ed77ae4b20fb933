// Copying one record.
#pragma once

#include <cstddef>
#include <cstring>

namespace vortex::inline v0 {

// Short records of the usual sizes are copied in a register, without a call.
inline void copy_record(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes == 16) {
    std::memcpy(to, from, 16);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace vortex::inline v0
