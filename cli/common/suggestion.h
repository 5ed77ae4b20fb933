// What a misspelt word may have been meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vortex::cli {

// The word nearest to `wrong` by letters left out, put in, exchanged or swapped with a neighbour:
// a third of its letters at most, and no more than three. Empty where there is none.
std::string_view nearest_word(std::string_view wrong, std::span<const std::string> words);

// "; did you mean 'WORD'?", or nothing.
std::string did_you_mean(std::string_view wrong, std::span<const std::string> words);

}  // namespace vortex::cli
