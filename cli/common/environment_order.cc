#include "cli/common/environment_order.h"

#include <sys/random.h>

#include <cerrno>
#include <string>
#include <utility>

#include "vortex/error.h"

namespace vortex::cli {

LineOrder order_in_locale_of_environment(LineKeyOptions keys) {
  const std::string default_locale = std::move(keys.locale);
  keys.locale.clear();
  try {
    return line_order(keys);
  } catch (const Error& error) {
    if (error.code().value() != ENOENT) throw;
  }
  keys.locale = default_locale;
  return line_order(keys);
}

std::array<char, 16> system_random_seed() {
  std::array<char, 16> seed{};
  if (getrandom(seed.data(), seed.size(), 0) != static_cast<ssize_t>(seed.size())) {
    throw Error(errno, "get random bytes from the system");
  }
  return seed;
}

}  // namespace vortex::cli
