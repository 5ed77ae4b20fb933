// The memory that an error names.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace vortex::test {

// What "at least SIZE" in a message means, as people read it; 0: it says no such thing.
inline std::uint64_t named_memory(const std::string& message) {
  const std::size_t at = message.find("at least ");
  if (at == std::string::npos) return 0;
  std::istringstream words(message.substr(at + 9));
  double number = 0;
  std::string unit;
  words >> number >> unit;
  double bytes = number;
  for (const char* name : {"KiB", "MiB", "GiB"}) {
    bytes *= 1024;
    if (unit == name) return static_cast<std::uint64_t>(bytes);
  }
  return static_cast<std::uint64_t>(number);
}

}  // namespace vortex::test
