// Whether memory has changed behind everybody's back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vortex { inline namespace v0 {

// A number for the bytes of a range: one word that changes always makes another, several changes
// do but for one case in 2^64. Nobody but a device may write there meanwhile; a race detector does
// not see what keeps the program from it.
[[gnu::no_sanitize_thread]] inline std::uint64_t content_sum(const std::byte* begin,
                                                             std::size_t bytes) noexcept {
  constexpr std::size_t kLanes = 8;  // as many as keep a multiplier busy
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  std::array<std::uint64_t, kLanes> sums{1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::uint64_t, kLanes> words{};
  const auto take_words = [&] {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] = (sums[lane] ^ words[lane]) * kFactor;
      sums[lane] ^= sums[lane] >> 32;
    }
  };
  std::size_t at = 0;
  for (; at + sizeof words <= bytes; at += sizeof words) {
    std::memcpy(words.data(), begin + at, sizeof words);
    take_words();
  }
  if (at < bytes) {
    // Byte by byte: a race detector is told of a copy whose length is not constant.
    words = {};
    for (std::size_t i = 0; at < bytes; ++at, ++i) {
      const auto byte =
          static_cast<std::uint64_t>(*static_cast<const volatile std::byte*>(begin + at));
      words[i / 8] |= byte << (i % 8 * 8);
    }
    take_words();
  }
  std::uint64_t sum = bytes;
  for (const std::uint64_t one : sums) {
    sum = (sum ^ one) * kFactor;
    sum ^= sum >> 32;
  }
  return sum;
}

}}  // namespace vortex::v0
