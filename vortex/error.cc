#include "vortex/error.h"

#include <array>
#include <cstdio>

namespace vortex {

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  std::uint64_t whole = bytes;
  while (whole >= 1024 && whole % 1024 == 0 && unit + 1 < kUnits.size()) {
    whole /= 1024;
    ++unit;
  }
  if (whole < 1024 * 8) return std::to_string(whole) + " " + kUnits[unit];
  double scaled = static_cast<double>(bytes);
  for (unit = 0; scaled >= 1024 && unit + 1 < kUnits.size(); ++unit) scaled /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", scaled, kUnits[unit]);
  return text.data();
}

}  // namespace vortex
