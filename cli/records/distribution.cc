#include "cli/records/distribution.h"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "vortex/error.h"

namespace vortex::cli {

namespace {

constexpr std::array<std::pair<std::string_view, Distribution>, 9> kNames = {{
    {"uniform", Distribution::kUniform},
    {"skewed", Distribution::kSkewed},
    {"zipf", Distribution::kZipf},
    {"sorted", Distribution::kSorted},
    {"reversed", Distribution::kReversed},
    {"nearly-sorted", Distribution::kNearlySorted},
    {"organ-pipe", Distribution::kOrganPipe},
    {"few", Distribution::kFew},
    {"equal", Distribution::kEqual},
}};

}  // namespace

Distribution parse_distribution(std::string_view text) {
  std::string names;
  for (const auto& [name, distribution] : kNames) {
    if (name == text) return distribution;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(EINVAL, "no distribution '" + std::string(text) + "'; there are " + names);
}

std::string_view to_string(Distribution distribution) noexcept {
  for (const auto& [name, value] : kNames) {
    if (value == distribution) return name;
  }
  return "";
}

}  // namespace vortex::cli
