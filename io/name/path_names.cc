#include "io/name/path_names.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "vortex/error.h"

namespace vortex { inline namespace v0 {

std::uint64_t random_bits() noexcept {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == sizeof bits) return bits;
  // A kernel that has none yet: what is different in the next process, and in the next call.
  static std::atomic<std::uint64_t> calls{0};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) + (static_cast<std::uint64_t>(getpid()) << 40) +
         (calls.fetch_add(1) << 56);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_in_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

PathOfDescriptor::PathOfDescriptor(int descriptor) noexcept {
  std::snprintf(path_.data(), path_.size(), "/proc/self/fd/%d", descriptor);
}

std::string followed_links(const std::string& path) {
  constexpr int kMaxLinks = 40;
  struct stat target {};
  if (stat(path.c_str(), &target) == 0 && !S_ISREG(target.st_mode)) return path;
  std::string followed = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    std::array<char, 4096> buffer{};
    const ssize_t length = readlink(followed.c_str(), buffer.data(), buffer.size());
    // Not a link, or nothing there: what is wrong, if anything is, shows when it is opened.
    if (length < 0) return followed;
    const std::string next(buffer.data(), static_cast<std::size_t>(length));
    followed = next.starts_with('/') ? next : folder_of(followed) + "/" + next;
  }
  throw Error(ELOOP, "follow '" + path + "'");
}

std::string temporary_name_for(std::string_view base) {
  constexpr std::size_t kMaxOfTheName = 64;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx",
                static_cast<unsigned long long>(random_bits()));
  std::string name = ".";
  name += base.substr(0, kMaxOfTheName);
  name += ".";
  name += digits.data();
  name += ".part";
  return name;
}

}}  // namespace vortex::v0
