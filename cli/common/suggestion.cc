#include "cli/common/suggestion.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vortex::cli {

namespace {

// The optimal string alignment distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) least[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) least[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t exchanged = least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      least[i][j] = std::min({exchanged, least[i - 1][j] + 1, least[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

}  // namespace

std::string_view nearest_word(std::string_view wrong, std::span<const std::string> words) {
  constexpr std::size_t kLongest = 64;  // of a word that may be a misspelt one
  if (wrong.size() > kLongest) return {};
  std::size_t least = std::min<std::size_t>(wrong.size() / 3, 3) + 1;
  std::string_view nearest;
  for (const std::string& word : words) {
    const std::size_t now = distance(wrong, word);
    if (now >= least) continue;
    least = now;
    nearest = word;
  }
  return nearest;
}

std::string did_you_mean(std::string_view wrong, std::span<const std::string> words) {
  const std::string_view nearest = nearest_word(wrong, words);
  return nearest.empty() ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

}  // namespace vortex::cli
