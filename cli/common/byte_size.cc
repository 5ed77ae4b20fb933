#include "cli/common/byte_size.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array kUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", std::uint64_t{1} << 10},
    Unit{"kib", std::uint64_t{1} << 10},
    Unit{"kb", 1000},
    Unit{"m", std::uint64_t{1} << 20},
    Unit{"mib", std::uint64_t{1} << 20},
    Unit{"mb", 1000 * 1000},
    Unit{"g", std::uint64_t{1} << 30},
    Unit{"gib", std::uint64_t{1} << 30},
    Unit{"gb", 1000 * 1000 * 1000},
    Unit{"t", std::uint64_t{1} << 40},
    Unit{"tib", std::uint64_t{1} << 40},
    Unit{"tb", std::uint64_t{1000} * 1000 * 1000 * 1000},
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

std::uint64_t parse_size(std::string_view text, const std::string& what) {
  std::uint64_t number = 0;
  const char* const end_of_text = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), end_of_text, number);
  const std::string quoted = what + " '" + std::string(text) + "'";
  const std::string name = lower({end, static_cast<std::size_t>(end_of_text - end)});
  for (const Unit& unit : kUnits) {
    if (error == std::errc::invalid_argument || name != unit.name) continue;
    if (error == std::errc::result_out_of_range ||
        number > std::numeric_limits<std::uint64_t>::max() / unit.bytes) {
      throw Error(EINVAL, quoted + " is larger than 64 bits can hold");
    }
    return number * unit.bytes;
  }
  throw Error(EINVAL, quoted +
                          " is no whole number with one of the units k, M, G, T (powers of 1024), "
                          "KiB ... TiB, kB ... TB");
}

std::uint64_t parse_count(std::string_view text, const std::string& what, std::uint64_t least,
                          std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end_of_text = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), end_of_text, number);
  const bool whole = error == std::errc{} && end == end_of_text;
  if (whole && number >= least && number <= most) return number;
  throw Error(EINVAL, what + " '" + std::string(text) + "': it is a whole number from " +
                          std::to_string(least) + " to " + std::to_string(most));
}

std::uint64_t most_memory_bytes(const MemoryLimits& limits) noexcept {
  constexpr std::uint64_t kBeside = std::uint64_t{32} << 20;
  const std::uint64_t all = limits.usable_bytes();
  return all - std::min(kBeside, all / 4);
}

}  // namespace vortex::cli
