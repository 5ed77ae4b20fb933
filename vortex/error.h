// Errors of calls made outside a fault.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

namespace vortex {

// What every constructor and call outside a fault throws. code() carries the errno value; what()
// names the operation, the object (stream, pool, path), the limit that was hit and, where there is
// one, the way out.
class Error : public std::system_error {
 public:
  Error(int errno_value, const std::string& message)
      : std::system_error(errno_value, std::generic_category(), message) {}
};

// "2 MiB", "1.5 GiB", "4097 bytes": exact when a unit divides the count, two digits otherwise.
std::string format_bytes(std::uint64_t bytes);

}  // namespace vortex
