// Into how many buckets each level splits (section 5.5 of the Vortex paper).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vortex/detail/stream/export.h"

namespace vortex { inline namespace v0 { namespace detail {

// A level splits 2^b ways with b from 1 to 12.
inline constexpr int kMaxSplitBits = 12;

// Bits that tell `count` records apart until about 64 are left together.
inline int bits_to_split(std::size_t count) noexcept {
  constexpr std::size_t kLeave = 96;
  return count <= kLeave ? 0 : std::bit_width((count - 1) / kLeave);
}

// The sequence (b0, b1, ...) with the given sum, no b above `most_bits`: the smallest depth and the
// least variance, larger splits first. Empty for bits <= 0. Throws Error(EINVAL) for most_bits <=
// 0.
VORTEX_EXPORT std::vector<int> plan_splits(int bits, int most_bits = 8);

// The sequence that minimises the sum of 1/s(b), where speeds[b] is the measured speed of a 2^b-way
// split in any unit (speeds[0] is ignored, 0: not possible), with ties going to fewer levels.
// Throws Error(EINVAL) when no sequence has that sum.
VORTEX_EXPORT std::vector<int> plan_splits(int bits, std::span<const double> speeds);

// The first split of each plan: what a sort that meets jobs of many sizes asks on every level.
class VORTEX_EXPORT SplitSteps {
 public:
  // The smallest depth and least variance with splits of at most 8 bits.
  SplitSteps() noexcept;
  // By the speeds of 2^b-way splits, b from 1 to 8; where no sequence makes a sum, by the next sum
  // above that one does. Throws Error(EINVAL) when no speed is above 0.
  explicit SplitSteps(std::span<const double> speeds);

  int next(int bits) const noexcept { return first_[static_cast<std::size_t>(bits)]; }

 private:
  std::array<std::uint8_t, 65> first_{};
};

// Address space on x86-64.
inline constexpr int kAddressBits = 47;

// The most bits, 8 at most, that a sort of `bytes` bytes may split by when each of its 2^b buckets
// reserves room for all of them on each of `levels` levels, besides the array and its pool. 0:
// none.
VORTEX_EXPORT int most_split_bits(std::uint64_t bytes, int levels = 1,
                                  int address_bits = kAddressBits) noexcept;

}}}  // namespace vortex::v0::detail
