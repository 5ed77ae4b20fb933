#include "vortex/error.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>

namespace vortex { inline namespace v0 {

void throw_error(int errno_value, const std::string& message) { throw Error(errno_value, message); }

int errno_of(const std::exception& exception, int otherwise) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return ENOMEM;
  const auto* const error = dynamic_cast<const std::system_error*>(&exception);
  if (error == nullptr || error->code().value() == 0) return otherwise;
  const std::error_category& category = error->code().category();
  const bool is_errno = category == std::generic_category() || category == std::system_category();
  return is_errno ? error->code().value() : otherwise;
}

std::string_view message_of(const std::exception& exception) noexcept {
  const auto* const error = dynamic_cast<const Error*>(&exception);
  return error != nullptr ? error->message() : std::string_view(exception.what());
}

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

}}  // namespace vortex::v0
