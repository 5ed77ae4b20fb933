#include "io/name/temporary_name.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>

namespace vortex { inline namespace v0 {

namespace {

std::uint64_t random_bits() noexcept {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == sizeof bits) return bits;
  // A kernel that has none yet: what is different in the next process, and in the next call.
  static std::atomic<std::uint64_t> calls{0};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  bits = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) + (static_cast<std::uint64_t>(getpid()) << 40) +
         (calls.fetch_add(1) << 56);
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

}  // namespace

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
