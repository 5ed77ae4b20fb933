// Random numbers that are the same for one seed on every machine and with every standard library.
#pragma once

#include <cstdint>

namespace vortex { inline namespace v0 {

// Sixty-four well mixed bits of `value`: the output function of splitmix64 (Steele, Lea, Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014).
constexpr std::uint64_t mix_bits(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// A splitmix64 generator; usable with the standard library's algorithms, though their results may
// differ from one standard library to the next. Not thread-safe, cheap to copy.
class SeededRandom {
 public:
  using result_type = std::uint64_t;

  explicit constexpr SeededRandom(std::uint64_t seed) noexcept : state_(seed) {}

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~std::uint64_t{0}; }

  constexpr result_type operator()() noexcept {
    const std::uint64_t value = mix_bits(state_);
    state_ += 0x9e3779b97f4a7c15U;
    return value;
  }

  // Uniform in [0, limit); limit must not be 0. The bias is at most limit / 2^64.
  constexpr std::uint64_t below(std::uint64_t limit) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<Wide>((*this)()) * limit >> 64);
  }

  // Uniform in [0, 1).
  constexpr double unit() noexcept { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}}  // namespace vortex::v0
