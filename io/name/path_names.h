// Names of files, as open(2) understands them, and those of files that are not whole yet.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "vortex/version.h"

namespace vortex { inline namespace v0 {

// The folder that a path's file lies in.
VORTEX_EXPORT std::string folder_of(const std::string& path);
// What the file is called there.
std::string name_in_folder(const std::string& path);

// A path of this process's own that leads to what a descriptor has open, where there is a /proc.
// It takes no memory, so that a file can get its name where there is none.
class PathOfDescriptor {
 public:
  explicit PathOfDescriptor(int descriptor) noexcept;
  const char* c_str() const noexcept { return path_.data(); }

 private:
  std::array<char, 32> path_{};
};

// The path with the symbolic links at its end followed, whether or not there is a file behind the
// last of them; what is no regular file is left as it is. Throws Error(ELOOP).
VORTEX_EXPORT std::string followed_links(const std::string& path);

// What no other process has, and no other call.
VORTEX_EXPORT std::uint64_t random_bits() noexcept;

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
  constexpr int kMaxAttempts = 100;  // after these, EEXIST is not about the name
  int error = EEXIST;
  for (int attempt = 0; attempt < kMaxAttempts && error == EEXIST; ++attempt) {
    std::string candidate = temporary_name_for(base);
    error = take(candidate);
    if (error == 0) name = std::move(candidate);
  }
  return error;
}

}}  // namespace vortex::v0
