// Into how many buckets each level splits (section 5.5 of the Vortex paper).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace vortex {

// A level splits 2^b ways with b from 1 to 12.
inline constexpr int kMostSplitBits = 12;

// The sequence (b0, b1, ...) with the given sum, no b above `most_bits`: the smallest depth and the
// least variance, larger splits first. Empty for bits <= 0.
std::vector<int> plan_splits(int bits, int most_bits = 8);

// The sequence that minimises the sum of 1/s(b), where speeds[b] is the measured speed of a 2^b-way
// split in any unit (speeds[0] is ignored, 0: not possible), with ties going to fewer levels.
// Throws Error(EINVAL) when no sequence has that sum.
std::vector<int> plan_splits(int bits, std::span<const double> speeds);

}  // namespace vortex
