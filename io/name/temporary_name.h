// Names of files that are not whole yet.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace vortex { inline namespace v0 {

// A hidden name for a file that is to be `base` in the same folder, telling where it came from as
// far as that is short: the whole may be as long as file systems allow. It ends in 64 random bits,
// so that what others leave behind, this process's namesake in another container included, is in
// nobody's way.
std::string temporary_name_for(std::string_view base);

// Tries such names until `take(name)`, which returns 0 or an errno value, says something else than
// that there is a file of that name. Puts the name that was taken into `name`; returns what `take`
// said last.
template <typename Take>
int take_temporary_name(std::string_view base, std::string& name, Take take) {
  constexpr int kMaxAttempts = 100;  // beyond that, whatever says EEXIST does not look at the name
  int error = EEXIST;
  for (int attempt = 0; attempt < kMaxAttempts && error == EEXIST; ++attempt) {
    std::string candidate = temporary_name_for(base);
    error = take(candidate);
    if (error == 0) name = std::move(candidate);
  }
  return error;
}

}}  // namespace vortex::v0
